// One size of a program is open, wherever it stands: parallel, reduced, twice, in strides,
// conditions and values. All sizes compute what the reference does.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/interpret/interpret.h"
#include "core/passes/bind/bind.h"
#include "runtime/engine/engine.h"
#include "tests/cache/largest_difference.h"
#include "tests/executors/guarded_run.h"
#include "tests/executors/run_backends.h"
#include "tests/random/sized_program.h"
#include "tests/random/whole_program.h"

namespace tile::test {
namespace {

std::vector<InputLayout> layouts_of(const std::vector<HostTensor>& inputs) {
  std::vector<InputLayout> list;
  for (const HostTensor& t : inputs) list.push_back({{t.type, t.shape}, {}});
  return list;
}

std::vector<HostTensor> reference(const Program& program, const std::vector<HostTensor>& inputs) {
  std::vector<InputType> types;
  for (const HostTensor& t : inputs) types.push_back({t.type, t.shape, {}});
  return interpret(tile::bind(program, types), inputs).outputs;
}

// How many launches take the size as a parameter, over all runs.
struct Counts {
  size_t launches = 0, shared = 0;
};

// `inputs_at`: the program's inputs at a size.
using InputsAt = std::function<std::vector<HostTensor>(int64_t size)>;
void expect_sizes_agree(const std::string& text, const InputsAt& inputs_at,
                        const std::shared_ptr<Engine>& engine, const std::vector<int64_t>& sizes,
                        Counts& counts) {
  SCOPED_TRACE(text);
  std::shared_ptr<LoadedProgram> program = loaded(engine, text);
  for (int64_t size : sizes) {
    std::vector<HostTensor> inputs = inputs_at(size);
    std::shared_ptr<const Executable> e = program->executable(layouts_of(inputs));
    for (const Launch& l : e->launches) {
      ++counts.launches;
      counts.shared += l.parameters.empty() ? 0 : 1;
    }
    std::vector<HostTensor> expected = reference(program->program(), inputs);
    std::vector<HostTensor> got;
    try {
      got = run_guarded(*e, inputs);
    } catch (const InternalError& wrong) {
      FAIL() << "size " << size << ": " << wrong.what();
    }
    for (size_t o = 0; o < expected.size(); ++o) {
      ASSERT_LE(largest_difference(got[o], expected[o]), 2e-4)
          << "size " << size << ", result " << o;
    }
  }
}

void expect_sizes_agree(uint64_t seed, const std::string& features, int threads,
                        const std::vector<int64_t>& sizes, Counts& counts) {
  SizedProgram drawn(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  expect_sizes_agree(
      drawn.text(), [&](int64_t size) { return drawn.inputs(size); },
      test_engine("cpu", features, threads), sizes, counts);
}

std::vector<int64_t> up_to(int64_t most, std::vector<int64_t> more) {
  std::vector<int64_t> sizes{20};
  for (int64_t n = 1; n <= most; ++n) sizes.push_back(n);
  sizes.insert(sizes.end(), more.begin(), more.end());
  return sizes;
}

TEST(SizedPrograms, AllSizesComputeWhatTheReferenceDoes) {
  Counts counts;
  for (uint64_t seed : seeds(1, 6)) {
    expect_sizes_agree(seed, "", 0, up_to(70, {97, 128, 131}), counts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(2 * counts.shared, counts.launches) << "the size is a parameter of most launches";
}

TEST(SizedPrograms, SomeSizesOfMorePrograms) {
  Counts counts;
  for (uint64_t seed : seeds(100, 24)) {
    expect_sizes_agree(seed, seed % 2 == 0 ? "avx2" : "", seed % 3 == 0 ? 3 : 0,
                       {30, 1, 2, 3, 6, 7, 8, 9, 13, 16, 17, 31, 32, 33, 47, 63, 64, 65, 101},
                       counts);
    if (HasFatalFailure()) return;
  }
}

// Running sums of few rows: the schedule writes their terms out, whose number launches give.
TEST(SizedPrograms, TermsThatAreWrittenOut) {
  Counts counts;
  expect_sizes_agree(7026, "avx2", 3, {30, 2, 3, 5, 8}, counts);
  EXPECT_GT(counts.shared, 0U);
}

// A window over the size, of sums or maxima: O[s] of X[stride * s + dilation * j - before].
struct Window {
  int64_t taps, stride, dilation, before;
  const char* aggregation;

  std::string text() const {
    std::string at = std::to_string(stride) + " * s + " + std::to_string(dilation) + " * j - " +
                     std::to_string(before);
    std::string size = std::to_string(stride) + " * S";
    bool sum = aggregation[0] == '+';
    return "function (X[S, T, C], K[J, C, D], Z[S]) -> (Y) { A = reshape(X, " + size + ", C);" +
           " Y[s, " + (sum ? "d: S, D" : "c: S, C") + "] = " + aggregation + "(A[" + at + ", c]" +
           (sum ? " * K[j, c, d])" : " * K[j, 0, 0])") + "; }";
  }
  std::vector<HostTensor> inputs(int64_t size) const {
    std::vector<HostTensor> list;
    for (const Shape& shape : {Shape{size, stride, 3}, Shape{taps, 3, 5}, Shape{size}}) {
      HostTensor t(DType::f32, shape);
      RandomSource values(list.size() + 1);
      for (int64_t e = 0; e < t.count(); ++e) {
        t.set(e, real_scalar(static_cast<double>(values.in(-16, 16)) / 16, DType::f32));
      }
      list.push_back(std::move(t));
    }
    return list;
  }
};

// What is shorter than a window has its class's loops, whose conditions say which taps count: from
// two values on there is one code for each class, however many taps there are.
TEST(SizedPrograms, WindowsThatAreLongerThanTheirSequences) {
  const Window windows[] = {{5, 1, 1, 2, "+"}, {9, 1, 1, 4, "+"},  {3, 1, 3, 3, "+"},
                            {4, 1, 1, 3, "+"}, {5, 2, 1, 2, "+"},  {7, 2, 2, 6, "+"},
                            {5, 1, 1, 2, ">"}, {12, 1, 1, 5, "+"}, {5, 3, 2, 4, "+"}};
  for (const Window& window : windows) {
    std::shared_ptr<Engine> engine = test_engine("cpu");
    Counts counts;
    expect_sizes_agree(
        window.text(), [&](int64_t size) { return window.inputs(size); }, engine,
        {20, 2, 5, 3, 4, 6, 7, 8, 9, 10, 11, 12, 24}, counts);
    if (HasFatalFailure()) return;
    EXPECT_EQ(counts.shared + counts.launches / 13, counts.launches) << window.text();
    EXPECT_LE(engine->kernels().compiled, 3 * counts.launches / 13) << window.text();
  }
}

TEST(SizedPrograms, KernelsSayWhyTheyShareNoCode) {
  std::shared_ptr<LoadedProgram> program =
      loaded(test_engine("cpu"), "function (X[S, C]) -> (Y) { Y = sin(X * (1.0 / S)); }");
  auto at = [&](int64_t size) { return program->executable({{{DType::f32, {size, 16}}, {}}}); };
  std::string because = "a constant that is made of the size and no multiple of it";
  EXPECT_EQ(at(20)->launches[0].own_code_because, "");  // nothing is known of other sizes
  EXPECT_EQ(at(12)->launches[0].own_code_because, because);
  EXPECT_TRUE(at(12)->launches[0].parameters.empty());
  std::string says = "shares no code with other sizes: " + because;
  EXPECT_NE(explain(*at(12)).find(says), std::string::npos);
  EXPECT_EQ(explain(*at(20)).find("shares no code"), std::string::npos);
}

}  // namespace
}  // namespace tile::test
