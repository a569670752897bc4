// Programs at many sizes (issue 23, item 4): the sizes of a class share their kernels and compute
// what the reference does, from several threads; sizes that run often get code of their own;
// weights are held once.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "core/interpret/interpret.h"
#include "core/passes/bind/bind.h"
#include "runtime/engine/cache/kernel_cache.h"
#include "runtime/engine/concurrency/parallel_for.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/engine.h"
#include "tests/cache/largest_difference.h"
#include "tests/executors/run_backends.h"
#include "tests/random/random_source.h"
#include "tests/random/sweep.h"

namespace tile::test {
namespace {

// A random chain of layers over the rows of X[B, …].
class RandomLayers {
 public:
  explicit RandomLayers(uint64_t seed) : random_(seed) {
    width_ = random_.in(3, 40);
    shapes_ = {{0, width_}};
    int64_t layers = random_.in(2, 5);
    for (int64_t i = 0; i < layers; ++i) layer();
  }

  std::string text() const {
    return "function (X[B, I0]" + inputs_ + ") -> (" + last_ + ") {" + body_ + " }";
  }
  // Values between -1 and 1 that few bits hold.
  std::vector<HostTensor> inputs(int64_t rows) const {
    std::vector<HostTensor> list;
    for (size_t i = 0; i < shapes_.size(); ++i) {
      Shape shape = shapes_[i];
      if (i == 0) shape[0] = rows;
      HostTensor t(DType::f32, shape);
      RandomSource values(i + 1);
      for (int64_t e = 0; e < t.count(); ++e) {
        t.set(e, real_scalar(static_cast<double>(values.in(-8, 8)) / 8, DType::f32));
      }
      list.push_back(std::move(t));
    }
    return list;
  }

 private:
  std::string fresh(const char* name) { return name + std::to_string(++made_); }
  std::string input(const char* name, Shape shape, const std::string& dims) {
    std::string input = fresh(name);
    inputs_ += ", " + input + "[" + dims + "]";
    shapes_.push_back(std::move(shape));
    return input;
  }
  void add(const std::string& statement) { body_ += " " + statement + ";"; }
  void becomes(const std::string& tensor, const std::string& value) {
    add(tensor + " = " + value);
    last_ = tensor;
  }

  void layer() {
    switch (random_.in(0, 6)) {
      case 0:
      case 1:
        return product();
      case 2: {
        std::string v = input("V", {width_}, size());
        return becomes(fresh("A"), last_ + " + " + v);
      }
      case 3:
        return becomes(fresh("A"), "relu(" + last_ + ") * 0.5");
      case 4:
        return norm();
      case 5:
        return softmax();
      default: {  // what a row's sum says
        std::string s = fresh("S");
        add(s + "[b, 0: B, 1] = +(" + last_ + "[b, c])");
        return becomes(fresh("A"), last_ + " * 0.25 + " + s + " / " + size());
      }
    }
  }
  std::string size() const { return "I" + std::to_string(sizes_); }
  void product() {
    int64_t next = random_.in(1, 48);
    std::string from = size();
    ++sizes_;
    std::string w = input("W", {width_, next}, from + ", " + size());
    std::string y = fresh("Y");
    add(y + "[b, o: B, " + size() + "] = +(" + last_ + "[b, i] * " + w + "[i, o])");
    width_ = next;
    last_ = y;
  }
  void norm() {
    std::string m = fresh("M"), d = fresh("D"), q = fresh("Q"), v = fresh("U");
    add(m + "[b, 0: B, 1] = +(" + last_ + "[b, c])");
    becomes(d, last_ + " - " + m + " / " + size());
    add(q + " = " + d + " * " + d);
    add(v + "[b, 0: B, 1] = +(" + q + "[b, c])");
    becomes(fresh("A"), d + " * rsqrt(" + v + " / " + size() + " + 0.25)");
  }
  void softmax() {
    std::string t = fresh("T"), e = fresh("E"), s = fresh("S");
    add(t + "[b, 0: B, 1] = >(" + last_ + "[b, c])");
    becomes(e, "exp(" + last_ + " - " + t + ")");
    add(s + "[b, 0: B, 1] = +(" + e + "[b, c])");
    becomes(fresh("A"), e + " / " + s);
  }

  RandomSource random_;
  int64_t width_ = 0;
  int made_ = 0, sizes_ = 0;
  std::string inputs_, body_, last_ = "X";
  std::vector<Shape> shapes_;
};

std::vector<InputLayout> layouts_of(const std::vector<HostTensor>& inputs) {
  std::vector<InputLayout> list;
  for (const HostTensor& t : inputs) list.push_back({{t.type, t.shape}, {}});
  return list;
}

const std::vector<int64_t> kSizes{24, 1, 2, 3, 5, 7, 8, 9, 10, 13, 16, 17, 31, 33, 40, 64, 65};

TEST(SizeClasses, RandomLayersAtManySizes) {
  for (const char* features : {"", "avx2"}) {
    for (uint64_t seed : sweep(1, 8, 3)) {
      RandomLayers drawn(seed);
      SCOPED_TRACE(drawn.text());
      std::shared_ptr<Engine> engine = test_engine("cpu", features);
      std::shared_ptr<LoadedProgram> program = loaded(engine, drawn.text());
      size_t launches = 1;
      std::string reasons;
      for (int64_t rows : kSizes) {
        std::vector<HostTensor> inputs = drawn.inputs(rows);
        std::shared_ptr<const Executable> e = program->executable(layouts_of(inputs));
        launches = std::max(launches, e->launches.size());
        for (const Launch& l : e->launches) {
          if (l.own_code_because.empty()) continue;
          reasons += "\n" + std::to_string(rows) + " rows: " + l.own_code_because;
        }
        HostTensor got = run_code(*e, inputs)[0];
        HostTensor expected = interpret(tile::bind(program->program(),
                                                   [&] {
                                                     std::vector<InputType> types;
                                                     for (const HostTensor& t : inputs) {
                                                       types.push_back({t.type, t.shape, {}});
                                                     }
                                                     return types;
                                                   }()),
                                        inputs)
                                  .outputs[0];
        EXPECT_LE(largest_difference(got, expected), 2e-4) << rows << " rows";
      }
      // The first sizes' own, those of one row, and three classes up to 65.
      EXPECT_LE(engine->kernels().compiled, 5 * launches) << reasons;
    }
  }
}

TEST(SizeClasses, SizesFromSeveralThreads) {
  RandomLayers drawn(3);
  std::shared_ptr<Engine> engine = test_engine("cpu");
  std::shared_ptr<LoadedProgram> program = loaded(engine, drawn.text());
  std::vector<HostTensor> expected(41);
  for (int64_t rows = 1; rows <= 40; ++rows) {
    std::vector<HostTensor> inputs = drawn.inputs(rows);
    expected[static_cast<size_t>(rows)] =
        run_code(*with_own_code(*program->executable(layouts_of(inputs))), inputs)[0];
  }
  std::shared_ptr<LoadedProgram> fresh = loaded(test_engine("cpu"), drawn.text());
  std::vector<std::thread> threads;
  std::vector<double> worst(4);
  for (size_t t = 0; t < worst.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 40; ++i) {
        int64_t rows = 1 + (i * 7 + static_cast<int64_t>(t) * 11) % 40;
        std::vector<HostTensor> inputs = drawn.inputs(rows);
        HostTensor got = run_code(*fresh->executable(layouts_of(inputs)), inputs)[0];
        worst[t] = std::max(worst[t], largest_difference(got, expected[static_cast<size_t>(rows)]));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (double difference : worst) EXPECT_LE(difference, 2e-4);
}

constexpr const char* kLayer =
    "function (X[B, I], W[I, O], V[O]) -> (R) { Y[b, o: B, O] = +(X[b, i] * W[i, o]);"
    " R = relu(Y + V); }";

std::vector<HostTensor> layer_inputs(int64_t rows) {
  return {integers({rows, 256}, 1), integers({256, 96}, 2), integers({96}, 3)};
}

bool shares_code(const Executable& e) {
  return std::any_of(e.launches.begin(), e.launches.end(),
                     [](const Launch& l) { return !l.parameters.empty(); });
}

// Starting a thread takes longer than finding the code of a kernel.
TEST(SizeClasses, ASizeWhoseCodeIsKnownStartsNoThreads) {
  std::atomic<int> calls{0};
  EngineOptions options;
  options.backend = "cpu";
  options.cache_mode = "off";
  options.threads = 2;
  options.parallel_for.user = &calls;
  options.parallel_for.run = [](void* user, size_t count, ParallelFor::Task task, void* context) {
    ++*static_cast<std::atomic<int>*>(user);
    for (size_t i = 0; i < count; ++i) task(context, i);
  };
  std::shared_ptr<LoadedProgram> program =
      loaded(Engine::create(options),
             "function (X[B, I], W[I, J], U[J, I]) -> (R) { Y[b, j: B, J] = +(X[b, i] * W[i, j]);"
             " A = relu(Y); Z[b, i: B, I] = +(A[b, j] * U[j, i]); R = X + Z; }");
  auto compile_at = [&](int64_t rows) {
    std::vector<HostTensor> inputs{integers({rows, 256}, 1), integers({256, 192}, 2),
                                   integers({192, 256}, 3)};
    return program->executable(layouts_of(inputs));
  };
  compile_at(32);
  std::shared_ptr<const Executable> first = compile_at(17);
  ASSERT_TRUE(first->launches.size() > 1 && shares_code(*first));
  if (processors() > 1) {
    EXPECT_GT(calls, 0) << "what is compiled is shared";
  }
  KernelCache& kernels = first->engine->kernels();
  uint64_t compiled = kernels.compiled, hits = kernels.hits;
  calls = 0;
  std::shared_ptr<const Executable> next = compile_at(18);
  EXPECT_EQ(kernels.compiled, compiled);
  EXPECT_EQ(kernels.hits, hits + next->launches.size());
  EXPECT_EQ(calls, 0);
}

TEST(SizeClasses, SizesThatRunOftenGetCodeOfTheirOwn) {
  EngineOptions options;
  options.backend = "cpu";
  options.cache_mode = "off";
  options.own_code_runs = 5;
  std::shared_ptr<Engine> engine = Engine::create(options);
  std::shared_ptr<LoadedProgram> program = loaded(engine, kLayer);
  auto live_at = [&](int64_t rows) {
    std::vector<HostTensor> inputs = layer_inputs(rows);
    return program->live(views_of(inputs));
  };
  live_at(32);
  std::shared_ptr<LiveExecutable> live = live_at(17), seldom = live_at(19);
  ASSERT_TRUE(shares_code(*live->snapshot()));
  std::vector<HostTensor> inputs = layer_inputs(17), first{HostTensor(DType::f32, {17, 96})};
  std::vector<HostTensor> outputs = first;
  auto run_now = [&](std::vector<HostTensor>& into) {
    run(*live->snapshot(), views_of(inputs), views_of(into));
  };
  run_now(first);
  for (int i = 1; i < 5; ++i) {
    EXPECT_TRUE(shares_code(*live->snapshot()));
    run_now(outputs);
  }
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (shares_code(*live->snapshot()) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_FALSE(shares_code(*live->snapshot()));
  EXPECT_TRUE(shares_code(*seldom->snapshot()));
  // Calls of the program find the same.
  EXPECT_FALSE(shares_code(*program->executable(views_of(inputs))));
  run_now(outputs);
  EXPECT_EQ(outputs[0].bytes, first[0].bytes);
}

TEST(SizeClasses, WeightsAreHeldOnce) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  std::shared_ptr<LoadedProgram> program = loaded(engine, kLayer);
  std::vector<HostTensor> weights = layer_inputs(1);
  std::vector<std::shared_ptr<LiveExecutable>> all;
  std::vector<uint64_t> held;
  std::vector<const void*> copies;
  for (int64_t rows : {24, 9, 10, 17, 33, 50, 64}) {
    // Each compilation is given the elements anew.
    std::vector<HostTensor> inputs = layer_inputs(rows);
    const size_t constant[] = {1, 2};
    all.push_back(program->live(views_of(inputs), constant));
    held.push_back(engine->statistics.constant_bytes);
    std::vector<HostTensor> outputs{HostTensor(DType::f32, {rows, 96})};
    std::shared_ptr<const Executable> e = all.back()->snapshot();
    ASSERT_EQ(e->constants.size(), 2U);
    copies.push_back(e->constants[0].copy.data);
    run(*e, views_of(inputs), views_of(outputs));
    EXPECT_EQ(outputs[0].bytes,
              interpret(tile::bind(program->program(), {{DType::f32, {rows, 256}, {}},
                                                        {DType::f32, {256, 96}, {}},
                                                        {DType::f32, {96}, {}}}),
                        inputs)
                  .outputs[0]
                  .bytes);
  }
  for (const void* copy : copies) EXPECT_EQ(copy, copies[0]);
  // The first size may pack them in one order, the class in another.
  for (size_t i = 2; i < held.size(); ++i) EXPECT_EQ(held[i], held[1]);
  // Other elements are other constants.
  std::vector<HostTensor> inputs = layer_inputs(12);
  inputs[1] = integers({256, 96}, 9);
  const size_t constant[] = {1, 2};
  auto other = program->live(views_of(inputs), constant);
  EXPECT_GT(engine->statistics.constant_bytes, held.back());
  EXPECT_NE(other->snapshot()->constants[0].copy.data, copies[0]);
  other.reset();
  all.clear();
}

}  // namespace
}  // namespace tile::test
