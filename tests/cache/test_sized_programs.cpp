// One size of a program is open, wherever it stands: parallel, reduced, twice, in strides,
// conditions and values. All sizes compute what the reference does.
#include <gtest/gtest.h>

#include <cmath>

#include "core/interpret/interpret.h"
#include "core/passes/bind/bind.h"
#include "runtime/engine/engine.h"
#include "tests/cache/largest_difference.h"
#include "tests/executors/guarded_run.h"
#include "tests/executors/run_backends.h"
#include "tests/random/sized_program.h"
#include "tests/random/sweep.h"
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

// One size of a program after the other, beside the reference.
class Sizes {
 public:
  Sizes(const std::shared_ptr<Engine>& engine, const std::string& text)
      : program_(loaded(engine, text)) {}

  void expect_agreement(const std::vector<HostTensor>& inputs, Counts& counts) const {
    std::shared_ptr<const Executable> e = program_->executable(layouts_of(inputs));
    for (const Launch& l : e->launches) {
      ++counts.launches;
      counts.shared += l.parameters.empty() ? 0 : 1;
    }
    std::vector<HostTensor> expected = reference(program_->program(), inputs);
    std::vector<HostTensor> got;
    try {
      got = run_guarded(*e, inputs);
    } catch (const InternalError& wrong) {
      FAIL() << wrong.what();
    }
    for (size_t o = 0; o < expected.size(); ++o) {
      ASSERT_LE(largest_difference(got[o], expected[o]), 2e-4) << "result " << o;
    }
  }

 private:
  std::shared_ptr<LoadedProgram> program_;
};

void expect_sizes_agree(uint64_t seed, const std::string& features, int threads,
                        const std::vector<int64_t>& sizes, Counts& counts) {
  SizedProgram drawn(seed);
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + drawn.text());
  Sizes program(test_engine("cpu", features, threads), drawn.text());
  for (int64_t size : sizes) {
    SCOPED_TRACE("size " + std::to_string(size));
    program.expect_agreement(drawn.inputs(size), counts);
    if (testing::Test::HasFatalFailure()) return;
  }
}

std::vector<int64_t> up_to(int64_t most, std::vector<int64_t> more) {
  std::vector<int64_t> sizes{20};
  for (int64_t n = 1; n <= most; ++n) sizes.push_back(n);
  sizes.insert(sizes.end(), more.begin(), more.end());
  return sizes;
}

TEST(SizedPrograms, AllSizesComputeWhatTheReferenceDoes) {
  Counts counts;
  for (uint64_t seed : sweep(1, 6, 2)) {
    expect_sizes_agree(seed, "", 0, up_to(70, {97, 128, 131}), counts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(2 * counts.shared, counts.launches) << "the size is a parameter of most launches";
}

TEST(SizedPrograms, SomeSizesOfMorePrograms) {
  Counts counts;
  for (uint64_t seed : sweep(100, 24, 9)) {
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

// Rows, columns, and both where they are equal: their classes have one typical kernel, and code of
// their own.
TEST(SizedPrograms, TwoOpenSizes) {
  constexpr const char* kTexts[] = {
      "function (X[M, N]) -> (O) { O = X * 2 + 1; }",
      "function (X[M, N]) -> (O) { S[m, 0: M, 1] = +(X[m, n]); O = X + S; }",
      "function (X[M, N]) -> (P) { T[m, 0: M, 1] = >(X[m, n]); E = exp(X - T);"
      " S[m, 0: M, 1] = +(E[m, n]); P = E / S; }",
      "function (X[M, N]) -> (O) { G[i, j: N, N] = +(X[m, i] * X[m, j]);"
      " O[m, j: M, N] = +(X[m, i] * G[i, j]); }"};
  const std::vector<Shape> orders[] = {{{9, 23}, {8, 3}, {8, 2}, {2, 8}, {6, 6}, {5, 8}, {8, 5}},
                                       {{3, 8}, {7, 7}, {5, 8}, {3, 5}, {8, 6}, {5, 5}, {6, 8}},
                                       {{8, 8}, {3, 8}, {5, 5}, {8, 3}, {16, 16}, {12, 16}}};
  for (const char* text : kTexts) {
    for (const std::vector<Shape>& shapes : orders) {
      SCOPED_TRACE(text);
      Sizes program(test_engine("cpu"), text);
      Counts counts;
      for (const Shape& shape : shapes) {
        SCOPED_TRACE(std::to_string(shape[0]) + " x " + std::to_string(shape[1]));
        program.expect_agreement({integers(shape, 3)}, counts);
        if (HasFatalFailure()) return;
      }
      EXPECT_GT(counts.shared, 0U);
    }
  }
}

// Two sizes whose classes begin and end elsewhere. Maxima of values that are far apart have no
// terms at some cells where there are few values, which code for many does not expect.
TEST(SizedPrograms, TwoOpenSizesOfOtherClasses) {
  Sizes program(test_engine("cpu"),
                "function (X[M], Z[N]) -> (O, P) { O = exp(X) * 2;"
                " P[n: N] = >(Z[n + 20 * j - 100]), j < 10; }");
  Counts counts;
  for (const Shape& shape :
       std::vector<Shape>{{9, 23}, {5, 33}, {5, 12}, {7, 28}, {3, 19}, {8, 64}, {2, 9}, {6, 20}}) {
    SCOPED_TRACE(std::to_string(shape[0]) + " and " + std::to_string(shape[1]));
    HostTensor z = integers({shape[1]}, 4);
    for (int64_t i = 0; i < z.count(); ++i) {
      z.set(i, real_scalar(z.at(i).f - 8, DType::f32));
    }
    program.expect_agreement({integers({shape[0]}, 3), z}, counts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(counts.shared, 9U) << "each kernel shares the code of its own size's class";
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
    return "function (X[S, T, C], K[J, C, D]) -> (Y) { A = reshape(X, " + size + ", C);" +
           " Y[s, " + (sum ? "d: S, D" : "c: S, C") + "] = " + aggregation + "(A[" + at + ", c]" +
           (sum ? " * K[j, c, d])" : " * K[j, 0, 0])") + "; }";
  }
  std::vector<HostTensor> inputs(int64_t size) const {
    std::vector<HostTensor> list;
    for (const Shape& shape : {Shape{size, stride, 3}, Shape{taps, 3, 5}}) {
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
    SCOPED_TRACE(window.text());
    std::shared_ptr<Engine> engine = test_engine("cpu");
    Sizes program(engine, window.text());
    Counts counts;
    for (int64_t size : {20, 2, 5, 3, 4, 6, 7, 8, 9, 10, 11, 12, 24}) {
      SCOPED_TRACE("size " + std::to_string(size));
      program.expect_agreement(window.inputs(size), counts);
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(counts.shared + counts.launches / 13, counts.launches);
    EXPECT_LE(engine->kernels().compiled, 3 * counts.launches / 13);
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
