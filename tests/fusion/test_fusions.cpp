// Random programs that share rows and columns through the passes, every fusion, lowering and the
// nest interpreter, against the reference interpreter, on several targets.
#include <gtest/gtest.h>

#include <cmath>

#include "core/fusion/group.h"
#include "core/pipeline/pipeline.h"
#include "tests/fusion/row_programs.h"
#include "tests/random/agreement/whole_agreement.h"
#include "tests/random/random_program.h"
#include "tests/random/random_source.h"
#include "tests/random/random_whole.h"
#include "tests/support/run_tile.h"
#include "tests/support/step_runner.h"

namespace tile::test {
namespace {

// Some CPU: what the model finds cheaper depends on its rates.
Target some_cpu(uint64_t seed) {
  RandomSource random(seed);
  Target t = testing::small_target();
  t.vector_bits = random.pick(std::vector<int>{128, 256, 512});
  t.vector_registers = t.vector_bits == 512 ? 32 : 16;
  t.threads = random.pick(std::vector<int>{1, 2, 3, 8, 64});
  t.fma_per_ns = static_cast<double>(random.in(4, 128));
  t.l2_bytes_per_ns = static_cast<double>(random.in(10, 120));
  t.l3_bytes_per_ns = static_cast<double>(random.in(4, 40));
  t.dram_bytes_per_ns = static_cast<double>(random.in(1, 30));
  t.parallel_overhead_ns = static_cast<double>(random.in(200, 20000));
  if (random.percent(40)) t.l2_bytes = 1024;  // sums over rows are of more than it holds
  return t;
}

// Sums in another order differ by roundings of their largest term.
std::string difference(const HostTensor& expected, const HostTensor& got, bool exact) {
  Values x = values_of(expected), y = values_of(got);
  double largest = 1;
  for (double v : x) {
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  }
  double tolerance = exact ? 0 : largest * (expected.type == DType::f32 ? 1e-4 : 1e-9);
  for (size_t i = 0; i < x.size(); ++i) {
    bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])) ||
                std::abs(x[i] - y[i]) <= tolerance;
    if (!same) {
      return "element " + std::to_string(i) + ": expected " + std::to_string(x[i]) + ", got " +
             std::to_string(y[i]);
    }
  }
  return "";
}

struct Fused {
  Target target;
  bool all = false;       // every legal fusion, not only those that the model chooses
  uint64_t schedule = 0;  // of all kernels; 0: the analytic one
};
// Through the passes, grouping and each kernel's nest.
std::vector<HostTensor> run_fused(BoundProgram program, const std::vector<HostTensor>& inputs,
                                  const Fused& how) {
  run_pipeline(program, how.target);
  StepRunner runner(program, inputs);
  GroupOptions options{.streams = how.all, .siblings = how.all, .pools = how.all, .rows = how.all};
  for (const Step& step : group(program, how.target, options)) {
    runner.run(step, how.schedule, how.target);
    if (::testing::Test::HasFatalFailure()) return {};
  }
  return runner.outputs();
}

void expect_fused_agrees(uint64_t seed, const Fused& how) {
  RowProgram drawn = row_program(seed);
  SCOPED_TRACE("seed " + std::to_string(seed) + ", schedule " + std::to_string(how.schedule) +
               ", " + to_string(how.target) + ":\n" + drawn.text);
  try {
    BoundProgram program = bind_text(drawn.text, drawn.types);
    std::vector<HostTensor> expected = interpret(program, drawn.inputs).outputs;
    std::vector<HostTensor> got = run_fused(program, drawn.inputs, how);
    ASSERT_EQ(expected.size(), got.size());
    for (size_t o = 0; o < expected.size(); ++o) {
      ASSERT_EQ(difference(expected[o], got[o], drawn.exact), "") << "output " << o;
    }
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
  } catch (const Failure& failure) {
    ADD_FAILURE() << failure.what();
  }
}

void expect_whole_agrees(uint64_t seed, const Fused& how) {
  WholeProgram drawn = random_whole(seed);
  SCOPED_TRACE("seed " + std::to_string(seed) + ", schedule " + std::to_string(how.schedule) +
               ", " + to_string(how.target) + ":\n" + text_of(drawn));
  try {
    WholeCase whole = case_of(drawn);
    Expectation expected(whole);
    BoundProgram program = tile::bind(*whole.program, whole.drawn.types);
    std::vector<HostTensor> got = run_fused(std::move(program), whole.drawn.inputs, how);
    if (::testing::Test::HasFatalFailure()) return;
    EXPECT_EQ(expected.disagreement(got), "");
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
  } catch (const Failure& failure) {
    ADD_FAILURE() << failure.what();
  }
}

Target gpu(uint64_t seed) { return seed % 2 == 0 ? h200_target() : a100_target(); }

TEST(Fusions, AsTheModelChooses) {
  for (uint64_t seed : seeds(0, 400)) expect_fused_agrees(seed, {some_cpu(seed)});
}
TEST(Fusions, WhereverTheyAreLegal) {
  for (uint64_t seed : seeds(1000, 200)) {
    expect_fused_agrees(seed, {some_cpu(seed), true});
    expect_fused_agrees(seed, {some_cpu(seed + 1), true, seed});
  }
}
// Rows of which the last kernel needs columns that are made in between: three kernels are one where
// two are not worth it, and that one stands behind the columns.
TEST(Fusions, ThreeKernelsAroundAnother) {
  const std::vector<std::string> texts = {
      "function (X[M, N]) -> (O) { T[i, 0: M, 1] = +(X[i, j]); D = X - T;"
      " C[0, j: 1, N] = +(X[i, j]); S[i, 0: M, 1] = +(D[i, j]); O = S + C; }",
      "function (X[M, N]) -> (O) { T[i, 0: M, 1] = +(X[i, j]); D = X * N - T;"
      " C[0, j: 1, N] = >(X[i, j]); V[i, 0: M, 1] = +(D[i, j] * D[i, j]); O = D + V + C; }"};
  HostTensor x(DType::f32, {130, 40});
  for (int64_t i = 0; i < x.count(); ++i) {
    x.set(i, real_scalar(static_cast<double>(i * 7 % 5 - 2), DType::f32));
  }
  int merged = 0;
  for (const std::string& text : texts) {
    BoundProgram program = bind_text(text, {{DType::f32, x.shape}});
    std::vector<HostTensor> expected = interpret(program, {x}).outputs;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      BoundProgram normal = program;
      run_pipeline(normal, some_cpu(seed));
      merged += group(normal, some_cpu(seed)).size() == 2 ? 1 : 0;
      EXPECT_EQ(difference(expected[0], run_fused(program, {x}, {some_cpu(seed)})[0], true), "");
    }
  }
  EXPECT_GT(merged, 0);
}

// A kernel whose operand is split by its windows joins the rows of another.
TEST(Fusions, RowsOfASplitOperand) {
  std::string text =
      "function (I[N, L]) -> (S, P) { T[j, k: N, (L + 2) / 3] = >(I[j, 3 * k + l]), l < 5;"
      " S[m: N] = +(I[m, n]);"
      " P[p, q: N, (L + 2) / 3 / 2] = +(T[p, 2 * q + r - 1] * T[p, 2 * q + r - 1]), r < 3; }";
  for (const Shape& shape : {Shape{2, 4}, Shape{33, 24}}) {
    HostTensor x(DType::f32, shape);
    for (int64_t i = 0; i < x.count(); ++i) {
      x.set(i, real_scalar(static_cast<double>(i * 7 % 5 - 2), DType::f32));
    }
    BoundProgram program = bind_text(text, {{DType::f32, shape}});
    std::vector<HostTensor> expected = interpret(program, {x}).outputs;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      std::vector<HostTensor> got = run_fused(program, {x}, {some_cpu(seed), seed % 2 == 0});
      for (size_t o = 0; o < 2; ++o) EXPECT_EQ(difference(expected[o], got[o], true), "");
    }
  }
}

// A default that no cell needs, made in the kernel itself, is none of its arguments.
TEST(Fusions, ADefaultOfTheSameKernel) {
  std::string text =
      "function (I[N]) -> (U, V) { T[i: N] = =(I[i] + i); U[i: N] = =(relu(I[i]) + I[i]) default T;"
      " S = U * U; V[i: N] = +(S[k] * U[i]); }";
  HostTensor x(DType::i64, {3});
  for (int64_t i = 0; i < x.count(); ++i) x.set(i, integer_scalar(i - 1, DType::i64));
  BoundProgram program = bind_text(text, {{DType::i64, {3}}});
  std::vector<HostTensor> expected = interpret(program, {x}).outputs;
  for (bool all : {false, true}) {
    std::vector<HostTensor> got = run_fused(program, {x}, {testing::wide_target(), all});
    ASSERT_EQ(got.size(), 2U);
    for (size_t o = 0; o < 2; ++o) EXPECT_EQ(difference(expected[o], got[o], true), "");
  }
}

TEST(Fusions, OnAGpu) {
  for (uint64_t seed : seeds(2000, 100))
    expect_fused_agrees(seed, {gpu(seed), seed % 3 != 0, seed % 4});
}

// A stage of one value for each row has no line of elements: counted as one, it gave a launch the
// rows twice.
TEST(Fusions, AStageWithoutALine) {
  std::string text =
      "function (I[N], J[M, N]) -> (U, T) { V = abs(I) % 5; U = abs(V); W = -V;"
      " T[i, j: N, M] = =((I[i] * J[j, i]) * W[i]); }";
  HostTensor narrow(DType::i32, {8}), wide(DType::f32, {65, 8});
  for (int64_t i = 0; i < narrow.count(); ++i) narrow.set(i, integer_scalar(i - 4, DType::i32));
  for (int64_t i = 0; i < wide.count(); ++i) {
    wide.set(i, real_scalar(static_cast<double>(i % 7), DType::f32));
  }
  BoundProgram program = bind_text(text, {{DType::i32, {8}}, {DType::f32, {65, 8}}});
  std::vector<HostTensor> inputs{narrow, wide}, expected = interpret(program, inputs).outputs;
  for (bool all : {false, true}) {
    std::vector<HostTensor> got = run_fused(program, inputs, {a100_target(), all});
    ASSERT_EQ(got.size(), 2U);
    for (size_t o = 0; o < 2; ++o) EXPECT_EQ(difference(expected[o], got[o], true), "");
  }
}

// Programs of every kind of statement, with gradients.
TEST(Fusions, WholePrograms) {
  for (uint64_t seed : seeds(0, 40)) expect_whole_agrees(seed, {some_cpu(seed), seed % 2 == 0});
}
TEST(Fusions, WholeProgramsOnAGpu) {
  for (uint64_t seed : seeds(500, 20)) expect_whole_agrees(seed, {gpu(seed), seed % 2 == 0});
}

}  // namespace
}  // namespace tile::test
