// Whole programs: the tensor-level passes, grouping, the analytic schedule and random ones, lowered
// and interpreted, against the reference interpreter.
#include <gtest/gtest.h>

#include "core/fusion/group.h"
#include "core/interpret/interpret.h"
#include "core/kernel/geometry.h"
#include "core/lower/lower.h"
#include "core/nest/passes/nest_passes.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/random_schedule.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

HostTensor integers(const InputType& type, uint64_t seed) {
  std::mt19937_64 random(seed);
  HostTensor t(type.type, type.shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    t.set(i, integer_scalar(static_cast<int64_t>(random() % 5) - 2, type.type));
  }
  return t;
}

TensorId storage(const BoundTensors& tensors, TensorId id) {
  while (tensors[id].view_of) id = *tensors[id].view_of;
  return id;
}

// Runs the steps of a grouped program, each kernel's nest by the nest interpreter.
class Runner {
 public:
  Runner(const BoundProgram& program, const std::vector<HostTensor>& inputs) : program_(program) {
    for (const BoundTensor& t : program.tensors) values_.emplace_back(t.type, t.shape);
    for (size_t i = 0; i < inputs.size(); ++i) {
      values_[program.inputs[i]] = inputs[i];
    }
  }

  void run(const nest::Nest& nest, const std::vector<TensorId>& arguments) {
    nest::verify(nest);
    std::vector<HostTensor> holders;
    holders.reserve(arguments.size());
    std::vector<HostTensor*> pointers;
    for (size_t i = 0; i < arguments.size(); ++i) {
      HostTensor t = values_[storage(program_.tensors, arguments[i])];
      t.shape = nest.buffers[i].shape;
      if (nest.buffers[i].written) std::fill(t.bytes.begin(), t.bytes.end(), std::byte{0x7e});
      holders.push_back(std::move(t));
      pointers.push_back(&holders.back());
    }
    nest::interpret(nest, pointers);
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!nest.buffers[i].written) continue;
      HostTensor& to = values_[arguments[i]];
      to.bytes = holders[i].bytes;
    }
  }

  HostTensor output(size_t i) const {
    TensorId id = program_.outputs[i];
    HostTensor t = values_[storage(program_.tensors, id)];
    t.shape = program_.tensors[id].shape;
    return t;
  }

 private:
  const BoundProgram& program_;
  IdVector<TensorId, HostTensor> values_;
};

BoundProgram normalized(const std::string& text, const std::vector<InputType>& types) {
  BoundProgram program = test::bind_text(text, types);
  run_pipeline(program, wide_target());
  return program;
}

void expect_close(const HostTensor& a, const HostTensor& b, const std::string& what) {
  ASSERT_EQ(a.shape, b.shape);
  for (int64_t i = 0; i < a.count(); ++i) {
    double x = convert(a.at(i), DType::f64).f, y = convert(b.at(i), DType::f64).f;
    double tolerance = 1e-5 * (1 + std::abs(x));
    bool same = same_value(a.at(i), b.at(i)) || std::abs(x - y) <= tolerance;
    ASSERT_TRUE(same) << what << " element " << i << ": " << x << " and " << y;
  }
}

// One schedule seed for all kernels; seed 0 is the analytic pick.
void expect_lowered_agrees(const std::string& text, const std::vector<InputType>& types,
                           uint64_t seeds = 12) {
  BoundProgram program = normalized(text, types);
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < types.size(); ++i) inputs.push_back(integers(types[i], i + 1));
  Interpretation expected = interpret(test::bind_text(text, types), inputs);
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Target target = seed % 2 == 0 ? wide_target() : small_target();
    Runner runner(program, inputs);
    std::string trace;
    for (const Step& step : group(program, target)) {
      if (const Kernel* kernel = std::get_if<Kernel>(&step)) {
        verify(*kernel);
        auto source = std::make_shared<const Source>(Source{"k", print(*kernel)});
        ASSERT_EQ(print(parse_kernel(source)), source->text);
        Schedule schedule =
            seed == 0 ? analytic_schedule(*kernel, target) : random_schedule(*kernel, target, seed);
        ASSERT_EQ(illegal(schedule, *kernel, target), "");
        nest::Nest nest = nest::run_passes(lower(*kernel, schedule, target), target);
        trace += print(schedule) + nest::print(nest);
        runner.run(nest, arguments_of(*kernel));
      } else if (const Scatter* scatter = std::get_if<Scatter>(&step)) {
        nest::Nest nest = lower_scatter(*scatter, program.tensors, target);
        trace += nest::print(nest);
        runner.run(nest::partition(nest), {scatter->updates, scatter->indices, scatter->result});
      } else {
        FAIL() << "a sort in these programs";
      }
    }
    for (size_t o = 0; o < program.outputs.size(); ++o) {
      ASSERT_NO_FATAL_FAILURE(expect_close(expected.outputs[o], runner.output(o), trace));
    }
  }
}

InputType f32(Shape shape) { return {DType::f32, std::move(shape)}; }

TEST(LowerPrograms, MatrixProductRule4_2) {
  expect_lowered_agrees(
      "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }",
      {f32({9, 20}), f32({20, 35})});
}
TEST(LowerPrograms, MatrixProductOfNarrowTypesRule4_8) {
  for (DType type : {DType::bf16, DType::f16, DType::i8, DType::u8, DType::f64}) {
    expect_lowered_agrees(
        "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }",
        {{type, {5, 12}}, {type, {12, 18}}}, 6);
  }
}
TEST(LowerPrograms, BiasAndGeluRule5_7) {
  expect_lowered_agrees(
      "function (A[M, K], B[K, N], D[N]) -> (E, C) {"
      " C[i, j : M, N] = +(A[i, k] * B[k, j]); E = gelu(C + D); }",
      {f32({9, 6}), f32({6, 21}), f32({21})});
}
TEST(LowerPrograms, PaddedStridedConvolutionRule4_1) {
  expect_lowered_agrees(
      "function (I[N, H, W, C], K[R, S, C, O]) -> (O1) {"
      " O1[n, y, x, o : N, (H + 1) / 2, (W + 1) / 2, O] ="
      " +(I[n, 2*y + r - 1, 2*x + s - 1, c] * K[r, s, c, o]); }",
      {f32({2, 7, 8, 3}), f32({3, 3, 3, 5})});
}
TEST(LowerPrograms, DilatedDataGradientRule7_5) {
  expect_lowered_agrees("function (D[X], K[J]) -> (G) { G[3*x + 2*j : 40] = +(D[x] * K[j]); }",
                        {f32({12}), f32({4})});
}
// Gaps between residue classes, at ends of dimensions, and between pieces side by side.
TEST(LowerPrograms, CellsThatNoPieceStoresRule4_3) {
  expect_lowered_agrees(
      "function (D[N, Y, X, C], K[J, I, C]) -> (G) {"
      " G[n, 3*y + 2*j, 3*x + 2*i, c : N, 17, 20, C] = +(D[n, y, x, c] * K[j, i, c]); }",
      {f32({2, 5, 6, 3}), f32({3, 3, 3})});
  expect_lowered_agrees(
      "function (A[N, M]) -> (O) { O[i + 2, 2*j + 1 : N + 3, 2*M + 3] = +(A[i, j]); }",
      {f32({3, 9})});
  expect_lowered_agrees(
      "function (A[N, M], P[K, L]) -> (O) {"
      " O[i + 2, 20*j : K, L] = =(A[i, j]) default P; }",
      {f32({3, 5}), f32({7, 101})});
  expect_lowered_agrees("function (A[N]) -> (O) { O[i, i : N, N] = +(A[i]); }", {f32({6})});
}
TEST(LowerPrograms, MaxPoolWithPaddingRule4_3) {
  expect_lowered_agrees(
      "function (I[H, W, C]) -> (O) {"
      " O[y, x, c : H / 2 + 1, W / 2 + 1, C] = >(I[2*y + r - 1, 2*x + s - 1, c]), r < 3, s < 3; }",
      {f32({8, 9, 5})});
}
TEST(LowerPrograms, GapsKeepTheDefaultRule4_4) {
  expect_lowered_agrees("function (A[N], P[M]) -> (O) { O[3*i + 1 : M] = =(A[i]) default P; }",
                        {f32({6}), f32({25})});
}
// One point for each cell, but the loops over it are a reduction: nothing may be combined.
TEST(LowerPrograms, AssignmentsWithReductionIndicesRule4_7) {
  expect_lowered_agrees(
      "function (A[N, N]) -> (O) {"
      " O[k/2, 2*i + 5 : N/2, 7] = =(A[(j - 3*k/2 + 1)/2, j + k]), 2*j < 6; }",
      {f32({6, 6})});
  expect_lowered_agrees("function (A[N]) -> (O) { O[] = =(A[3*i + 1]), 40*i - 30 < 30; }",
                        {f32({64})});
}
TEST(LowerPrograms, EmptyWindowsKeepZeroRule4_3) {
  expect_lowered_agrees("function (A[N]) -> (O) { O[i : 20] = >(A[i + j - 9]), j < 3; }",
                        {f32({6})});
  expect_lowered_agrees("function (A[N]) -> (O) { O[i : 20] = *(A[i + 3*j - 9]), j < 3; }",
                        {f32({6})});
}
TEST(LowerPrograms, TriangularSumRule4_2) {
  expect_lowered_agrees("function (A[N]) -> (O) { O[i : N] = +(A[i - j]), j < N; }", {f32({23})});
}
TEST(LowerPrograms, CumulativeSumsRule6_4) {
  expect_lowered_agrees("function (A) -> (O) { O = cumsum(A, 1); }", {f32({5, 37})}, 30);
  expect_lowered_agrees("function (A) -> (O) { O = cumsum(A, 0); }", {f32({37, 40})}, 30);
  expect_lowered_agrees("function (A) -> (O) { B = cumsum(A, 0); O = B * B; }", {f32({50})}, 30);
}
TEST(LowerPrograms, ReductionsThatGrowWithAnParallelDimRule4_2) {
  for (const char* range : {"k - i", "k - i + 3", "k - i - 4", "i - k", "i - k + 5", "i - k - 2"}) {
    for (const char* aggregation : {"+", ">", "*"}) {
      std::string text = std::string("function (A[N]) -> (O) { O[i : 20] = ") + aggregation +
                         "(A[k]), " + range + " < 100; }";
      expect_lowered_agrees(text, {f32({24})}, 16);
    }
  }
}
TEST(LowerPrograms, Softmax) {
  expect_lowered_agrees(
      "function (A[N, M]) -> (O) { X[i : N] = >(A[i, j]); E[i, j : N, M] = =(A[i, j] - X[i]);"
      " F = exp(E); S[i : N] = +(F[i, j]); O[i, j : N, M] = =(F[i, j] / S[i]); }",
      {f32({5, 37})});
}
// Stages that share rows, reduced over each axis in turn.
TEST(LowerPrograms, RowsOfAnyAxis) {
  const char* reduced[3] = {"0, b, c : 1, B, C", "a, 0, c : A, 1, C", "a, b, 0 : A, B, 1"};
  for (std::string kept : reduced) {
    std::string head = "function (X[A, B, C]) -> (O) { T[" + kept;
    std::string sum = "] = +(", value = "[a, b, c]); ";
    std::string softmax =
        head + "] = >(X" + value + "E = exp(X - T); S[" + kept + sum + "E" + value;
    expect_lowered_agrees(softmax + "O = E / S; }", {f32({3, 5, 18})}, 24);
    expect_lowered_agrees(softmax + "O = X - T - log(S); }", {f32({3, 5, 18})}, 12);
    std::string norm = head + sum + "X" + value + "D = X - T / 8; Q = D * D; V[" + kept + sum +
                       "Q" + value + "O = D * rsqrt(V / 8 + 0.5); }";
    expect_lowered_agrees(norm, {f32({4, 9, 7})}, 24);
  }
}
TEST(LowerPrograms, SiblingReductionsInRows) {
  expect_lowered_agrees(
      "function (X[M, N], Y[M, N]) -> (S, T) { S[m : M] = +(X[m, n]);"
      " T[m : M] = >(X[m, n] * Y[m, n]), m - n < 100; }",
      {f32({19, 13}), f32({19, 13})}, 24);
}
TEST(LowerPrograms, SumOverEverything) {
  expect_lowered_agrees("function (A[N, M]) -> (O) { O[] = +(A[i, j]); }", {f32({11, 37})});
  expect_lowered_agrees("function (A[N]) -> (O) { O[] = +(A[i]); }", {f32({700000})}, 2);
}
TEST(LowerPrograms, GatherAndScatterRule6_4) {
  std::vector<InputType> types = {f32({9, 20}), {DType::i32, {7}}};
  expect_lowered_agrees("function (A, I) -> (O) { O = gather(A, I); }", types);
  expect_lowered_agrees("function (U, I) -> (O) { O = scatter(U, I, 5); }",
                        {f32({7, 20}), {DType::i32, {7}}});
  expect_lowered_agrees("function (U, I) -> (O) { O = scatter(U, I, 5); }",
                        {{DType::bf16, {6, 7}}, {DType::i64, {6, 7}}});
}
TEST(LowerPrograms, ConcatAndReshapeRule6_4) {
  expect_lowered_agrees(
      "function (A[N, M], B[N, L]) -> (O) { C = concat(1, A, B); D = reshape(C, N * (M + L));"
      " O = D * 2; }",
      {f32({4, 5}), f32({4, 7})});
}
// A result and its transpose, or its mirror image, are not known in one tile.
TEST(LowerPrograms, ResultsReadInTwoOrdersRule6_1) {
  const std::string square = "function (A[N, N]) -> (O) { H[i, j : N, N] = +(A[i, k] * A[k, j]); ";
  for (const char* rest :
       {"S = transpose(H, 1, 0); O = H + S; }", "S[j, i : N, N] = =(H[i, j]); O = S * 2 + H; }",
        "S[N - 1 - i, j : N, N] = +(H[i, j] * 2); O = S + H; }",
        "S[j, i : N, N] = +(H[i, j] * 2); U = S * A; V = transpose(U, 1, 0); O = U + V; }",
        "S[N - 1 - i, j : N, N] = +(H[i, j] * 2); O = S + A; }"}) {
    expect_lowered_agrees(square + rest, {f32({7, 7})});
  }
}
TEST(LowerPrograms, DiagonalsAreZeroElsewhereRule4_3) {
  expect_lowered_agrees("function (A[N], B[N]) -> (O) { D[i, i : N, N] = +(A[i]); O = D * B + 1; }",
                        {f32({6}), f32({6})});
  expect_lowered_agrees(
      "function (A[N, N], B[N]) -> (O) { D[i, j, i : N, N, N] = =(A[j, i]); O = D - B; }",
      {f32({4, 4}), f32({4})});
}
TEST(LowerPrograms, TransposedOperandsAndBatches) {
  expect_lowered_agrees(
      "function (A[B, K, M], X[N, B, K]) -> (C) { C[b, i, j : B, M, N] = +(A[b, k, i] * X[j, b, "
      "k]); }",
      {f32({3, 8, 10}), f32({17, 3, 8})});
}
TEST(LowerPrograms, EmptyTensorsRule4_5) {
  expect_lowered_agrees(
      "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }",
      {f32({4, 0}), f32({0, 5})});
  expect_lowered_agrees("function (A[N]) -> (O) { O = A + 1; }", {f32({0})});
}

}  // namespace
}  // namespace tile::testing
