// Time loops: several steps in one call have the bits of as many single runs.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "programs.h"

namespace tile::test {
namespace {

// Heat along a rod, whose ends stay as they are.
const char* kHeat =
    "function (U[N], C[N]) -> (O) {\n  S[i: N] = +(U[i + k - 1] * 0.25), k < 3;\n"
    "  O = S * C + U * 0.4;\n}\n";
// Two levels in time: the second output passes an input on.
const char* kWave =
    "function (U[N], V[N]) -> (A, B, E) {\n  L[i: N] = +(U[i + k - 1]), k < 3;\n"
    "  A = U * 0.5 - V * 0.25 + L * 0.125;\n  B = U;\n  E[] = +(A[i] * A[i]);\n}\n";
const char* kSwap = "function (A[N], B[N]) -> (P, Q) { P = B; Q = A; }";
const char* kBoth = "function (A[N], B[N]) -> (O) { O = A * 0.5 + B * 0.25 + 1; }";

struct Loop {
  const char* text;
  size_t inputs, outputs;
  std::vector<tile_feed> feeds;
  std::vector<size_t> scalars = {};  // outputs without a dimension
};
const Loop kLoops[] = {
    {kHeat, 2, 1, {{0, 0}}},         {kWave, 2, 3, {{0, 0}, {1, 1}}, {2}},
    {kSwap, 2, 2, {{0, 0}, {1, 1}}}, {kSwap, 2, 2, {{0, 1}, {1, 0}}},
    {kBoth, 2, 1, {{0, 0}, {0, 1}}},
};

class Steps : public testing::TestWithParam<const char*> {
 protected:
  using Tensors = std::vector<std::vector<float>>;
  static size_t cells(const Loop& loop, size_t output, int64_t n) {
    for (size_t scalar : loop.scalars) {
      if (scalar == output) return 1;
    }
    return static_cast<size_t>(n);
  }
  static std::vector<jit::View> inputs_of(Tensors& tensors, int64_t n) {
    std::vector<jit::View> views;
    for (auto& t : tensors) views.push_back(jit::view(t.data(), {n}));
    return views;
  }
  static std::vector<jit::View> outputs_of(const Loop& loop, Tensors& tensors, int64_t n) {
    std::vector<jit::View> views;
    for (size_t i = 0; i < tensors.size(); ++i) {
      std::vector<int64_t> shape = {n};
      if (!loop.scalars.empty() && loop.scalars[0] == i) shape.clear();
      views.push_back(jit::view(tensors[i].data(), shape));
    }
    return views;
  }
  static Tensors given(const Loop& loop, int64_t n) {
    Tensors tensors;
    for (size_t i = 0; i < loop.inputs; ++i) {
      tensors.push_back(integers(static_cast<size_t>(n), i));
    }
    return tensors;
  }
  static Tensors room(const Loop& loop, int64_t n) {
    Tensors tensors;
    for (size_t i = 0; i < loop.outputs; ++i) tensors.emplace_back(cells(loop, i, n), -7.0F);
    return tensors;
  }

  // The loop as a host writes it.
  static Tensors by_single_runs(const jit::Executable& e, const Loop& loop, int64_t n, int steps) {
    Tensors inputs = given(loop, n), outputs = room(loop, n);
    for (int s = 0; s < steps; ++s) {
      e.run(inputs_of(inputs, n), outputs_of(loop, outputs, n));
      for (tile_feed feed : loop.feeds) inputs[feed.input] = outputs[feed.output];
    }
    return outputs;
  }

  jit::Engine engine() const {
    tile_engine_options options = options_of(GetParam());
    options.threads = 2;
    return jit::Engine(options);
  }
};

TEST_P(Steps, AreSingleRuns) {
  for (const Loop& loop : kLoops) {
    for (int64_t n : {1, 2, 5, 257, 4099}) {
      if (std::string(GetParam()) == "reference" && n > 257) continue;
      Tensors inputs = given(loop, n);
      jit::Executable e = engine().parse("tile", loop.text).compile(inputs_of(inputs, n));
      for (int steps : {1, 2, 3, 6, 23}) {
        SCOPED_TRACE(std::string(loop.text) + std::to_string(n) + " x" + std::to_string(steps));
        Tensors expected = by_single_runs(e, loop, n, steps), outputs = room(loop, n);
        e.run_steps(static_cast<uint64_t>(steps), loop.feeds, inputs_of(inputs, n),
                    outputs_of(loop, outputs, n));
        for (size_t i = 0; i < outputs.size(); ++i) {
          EXPECT_EQ(std::memcmp(outputs[i].data(), expected[i].data(), outputs[i].size() * 4), 0)
              << "output " << i;
        }
        EXPECT_EQ(inputs, given(loop, n)) << "inputs stay as they are";
      }
    }
  }
}

TEST_P(Steps, NoneCopyWhatTheyFeed) {
  Tensors inputs = given(kLoops[3], 100), outputs = room(kLoops[3], 100);
  jit::Executable e = engine().parse("tile", kSwap).compile(inputs_of(inputs, 100));
  e.run_steps(0, kLoops[3].feeds, inputs_of(inputs, 100), outputs_of(kLoops[3], outputs, 100));
  EXPECT_EQ(outputs[0], inputs[1]);
  EXPECT_EQ(outputs[1], inputs[0]);
}

TEST_P(Steps, OutputsWithStrides) {
  const Loop& loop = kLoops[0];
  constexpr int64_t kCount = 301;
  Tensors inputs = given(loop, kCount);
  jit::Executable e = engine().parse("tile", loop.text).compile(inputs_of(inputs, kCount));
  for (int steps : {1, 2, 3, 8}) {
    Tensors expected = by_single_runs(e, loop, kCount, steps);
    std::vector<float> wide(3 * kCount, -1);
    jit::View strided(wide.data() + 1, {kDLFloat, 32, 1}, {kCount}, {3});
    e.run_steps(static_cast<uint64_t>(steps), loop.feeds, inputs_of(inputs, kCount), {strided});
    for (size_t i = 0; i < wide.size(); ++i) {
      EXPECT_EQ(wide[i], i % 3 == 1 ? expected[0][i / 3] : -1) << i << " of " << steps;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Steps, testing::Values("cpu", "reference"),
                         [](const auto& param_info) { return std::string(param_info.param); });

class StepErrors : public testing::Test {
 protected:
  static constexpr int64_t kCount = 10;
  // The error of two steps of a program of vectors, which shows where in the text.
  std::string failure(const char* text, std::vector<tile_feed> feeds, uint64_t steps = 2) {
    jit::Executable e = engine_.parse("tile", text).compile({a_, b_});
    try {
      e.run_steps(steps, feeds, {a_, b_}, {o_, p_});
    } catch (const jit::Error& error) {
      EXPECT_EQ(error.code(), "argument") << error.what();
      return error.what();
    }
    return "";
  }
  void expect(const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }

  std::vector<float> memory_ = std::vector<float>(4 * kCount, 1);
  jit::View a_ = jit::view(memory_.data(), {kCount}), b_ = jit::view(&memory_[kCount], {kCount});
  jit::View o_ = jit::view(&memory_[2 * kCount], {kCount});
  jit::View p_ = jit::view(&memory_[3 * kCount], {kCount});
  jit::Engine engine_{options_of()};
};

TEST_F(StepErrors, SayWhatDoesNotFit) {
  const char* both = "function (A[N], B[N]) -> (O, P) {\n  O = A + B;\n  P = A - B;\n}\n";
  EXPECT_EQ(failure(both, {{0, 0}, {1, 1}}), "");
  expect(failure(both, {{2, 0}}), "from output 2 to input 0");
  expect(failure(both, {{0, 2}}), "from output 0 to input 2");
  expect(failure(both, {{0, 1}, {1, 1}}),
         "input B (1) is fed twice: by output O (0) and output P (1)");
  expect(failure(both, {{0, 1}, {1, 1}}), ":1:30: ");
  expect(failure(both, {{0, 0}}, 0), "output P (1), which feeds no input");
  expect(failure(both, {{0, 0}}, 0), ":1:30: ");
  const char* shorter =
      "function (A[N], B[N]) -> (O, P) {\n  O[i: N - 1] = +(A[i] * B[i]);\n  P = A;\n}\n";
  expect(failure(shorter, {{0, 0}}),
         "output O (0) cannot feed input A (0): it is f32[9], which differs");
  expect(failure(shorter, {{0, 0}}), ":1:27: ");
  const char* whole = "function (A[N], B[N]) -> (O, P) {\n  O = as_int(A + B, 32);\n  P = A;\n}\n";
  expect(failure(whole, {{0, 0}}), "it is i32[10], which differs from its f32[10]");
  const char* window =
      "function (A[N], B[N]) -> (O, P) {\n  O[i, 0: N, 1] = +(A[i]);\n  P = B;\n}\n";
  expect(failure(window, {{0, 0}}), "At(0) takes out what Reduce leaves");
}

TEST_F(StepErrors, StridesAndConstants) {
  const char* text = "function (A[M], B[M]) -> (O) { O = A * 2 + B; }";
  std::vector<float> wide(2 * kCount, 1);
  jit::View strided(wide.data(), {kDLFloat, 32, 1}, {kCount}, {2});
  jit::Program program = engine_.parse("tile", text);
  auto code = [&](const jit::Executable& e, const jit::View& a, std::vector<tile_feed> feeds) {
    try {
      e.run_steps(2, feeds, {a, b_}, {o_});
    } catch (const jit::Error& error) {
      return error.message();
    }
    return std::string();
  };
  expect(code(program.compile({strided, b_}), strided, {{0, 0}}), "compiled for other strides");
  EXPECT_EQ(code(program.compile({strided, b_}), strided, {{0, 1}}), "");
  expect(code(program.compile({a_, b_}, {0}), a_, {{0, 0}}), "constant input");
}

// What the first step may take, the second still reads.
TEST_F(StepErrors, OutputsInTheMemoryOfInputs) {
  jit::Executable e =
      engine_.parse("tile", "function (A[M], B[M]) -> (O) { O = A * 2 + B; }").compile({a_, b_});
  ASSERT_TRUE(e.may_donate(0, 0) && e.may_donate(1, 0));
  for (int steps : {2, 3}) {
    std::fill(memory_.begin(), memory_.end(), 1.0F);
    e.run_steps(static_cast<uint64_t>(steps), {{0, 0}}, {a_, b_}, {a_});
    EXPECT_EQ(memory_[3], steps == 2 ? 7 : 15);
    try {
      e.run_steps(static_cast<uint64_t>(steps), {{0, 0}}, {a_, b_}, {b_});
      FAIL() << "an input that every step reads was overwritten";
    } catch (const jit::Error& error) {
      EXPECT_EQ(error.code(), "overlap");
    }
  }
}

TEST_F(StepErrors, Arguments) {
  const char* text = "function (A[M], B[M]) -> (O) { O = A * 2 + B; }";
  jit::Executable e = engine_.parse("tile", text).compile({a_, b_});
  Given in({a_, b_}), out({o_});
  tile_feed feed{0, 0};
  auto run = [&](const tile_executable* which, const tile_feed* feeds, size_t inputs) {
    return code_of(tile_executable_run_steps(which, 2, feeds, 1, in.data(), inputs, out.data(),
                                             out.size(), nullptr));
  };
  EXPECT_EQ(run(e.get(), &feed, 2), "");
  EXPECT_EQ(run(nullptr, &feed, 2), "argument");
  EXPECT_EQ(run(e.get(), nullptr, 2), "argument");
  EXPECT_EQ(run(e.get(), &feed, 1), "argument");
}

struct Refusing {
  std::atomic<int> left{0};  // calls that get memory
  static void* allocate(void* user, size_t bytes, size_t alignment, void*) {
    auto& self = *static_cast<Refusing*>(user);
    if (self.left-- <= 0) return nullptr;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  static void release(void*, void* memory, size_t, void*) { std::free(memory); }
};

TEST_F(StepErrors, Memory) {
  Refusing host;
  tile_allocator allocator{sizeof(tile_allocator), Refusing::allocate, Refusing::release, &host};
  tile_engine_options options = options_of();
  options.host_allocator = &allocator;
  const char* text = "function (A[M], B[M]) -> (O) { O = A * 2 + B; }";
  jit::Executable e = jit::Engine(options).parse("tile", text).compile({a_, b_});
  Given in({a_, b_}), out({o_});
  tile_feed feed{0, 0};
  auto run = [&](uint64_t steps) {
    return code_of(tile_executable_run_steps(e.get(), steps, &feed, 1, in.data(), in.size(),
                                             out.data(), out.size(), nullptr));
  };
  EXPECT_EQ(run(1), "") << "one step has no memory of its own";
  EXPECT_EQ(run(2), "memory");
  host.left = 1;
  EXPECT_EQ(run(50), "") << "as much memory for any number of steps";
  options = options_of();
  options.memory_limit = 39;  // one byte less than a vector
  jit::Executable limited = jit::Engine(options).parse("tile", text).compile({a_, b_});
  EXPECT_EQ(code_of(tile_executable_run_steps(limited.get(), 2, &feed, 1, in.data(), in.size(),
                                              out.data(), out.size(), nullptr)),
            "memory");
}

TEST_F(StepErrors, Cancelled) {
  const char* text = "function (A[M], B[M]) -> (O) { O = A * 0.5 + B; }";
  jit::Executable e = engine_.parse("tile", text).compile({a_, b_});
  Given in({a_, b_}), out({o_});
  tile_feed feed{0, 0};
  std::atomic<bool> over{false};
  tile_run_options options{};
  options.struct_size = sizeof options;
  options.cancel = [](void* user) { return static_cast<std::atomic<bool>*>(user)->load() ? 1 : 0; };
  options.cancel_user = &over;
  std::atomic<int64_t> asked_at{0};
  auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    asked_at = now();
    over = true;
  });
  std::string code = code_of(tile_executable_run_steps(
      e.get(), UINT64_MAX, &feed, 1, in.data(), in.size(), out.data(), out.size(), &options));
  double ms = 1e-6 * static_cast<double>(now() - asked_at);
  other.join();
  EXPECT_EQ(code, "cancelled");
  EXPECT_LT(ms, 100);
  over = false;
  EXPECT_EQ(code_of(tile_executable_run_steps(e.get(), 10, &feed, 1, in.data(), in.size(),
                                              out.data(), out.size(), &options)),
            "");
}

}  // namespace
}  // namespace tile::test
