// Contractions on the reference interpreter (core/language/tile/REFERENCE.md section 4).
#include "core/support/control.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

TEST(InterpretContraction, ValidPointsSkipOutsideAccesses) {  // rules 4.1, 4.2
  EXPECT_EQ(values("function (I[L], K[LK]) -> (O) { O[x: L] = +(I[x + k - 1] * K[k]); }",
                   {vector_of({1, 2, 3, 4}), vector_of({1, 10, 100})}),
            Values({210, 321, 432, 43}));
}

TEST(InterpretContraction, RationalAccessesNeedIntegers) {  // rules 3.1, 4.1
  EXPECT_EQ(
      values("function (I[N]) -> (O) { O[x: 6] = +(I[(x - 1) / 2]); }", {vector_of({1, 2, 3})}),
      Values({0, 1, 0, 2, 0, 3}));
  EXPECT_EQ(values("function (I[N], K[M]) -> (O) { O[i: 8] = +(I[i / 2 + k / 2] * K[k]); }",
                   {vector_of({1, 2, 3, 4}), vector_of({1, 10, 100})}),
            Values({201, 20, 302, 30, 403, 40, 4, 0}));
}

TEST(InterpretContraction, SizesDivideTowardZeroIndicesExactly) {  // rule 3.2
  EXPECT_EQ(values("function (I[N]) -> (O) { O[i: N / 2] = +(I[i + N / 2 - 5 / 2]); }",
                   {vector_of({1, 2, 3, 4, 5})}),
            Values({1, 2}));
}

TEST(InterpretContraction, ConstraintsMayBeFractional) {  // rule 4.1
  EXPECT_EQ(values("function (I[N]) -> (O) { O[i: N] = +(I[i]), i / 2 < 2; }",
                   {vector_of({1, 2, 3, 4, 5, 6})}),
            Values({1, 2, 3, 4, 0, 0}));
  EXPECT_EQ(values("function (I[N]) -> (O) { O[i: N] = +(I[i]), i / 3 - 1 / 2 < 1; }",
                   {vector_of({1, 2, 3, 4, 5, 6})}),
            Values({0, 0, 3, 4, 5, 0}));
}

TEST(InterpretContraction, CoupledOutputs) {  // rule 4.1
  EXPECT_EQ(values("function (A[N], B[M]) -> (O) { O[i + j, i - j + 3: 5, 6] = +(A[i] * B[j]); }",
                   {vector_of({1, 2, 3}), vector_of({1, 10})}),
            Values({0, 0, 0,  1,  0,  0,  //
                    0, 0, 10, 0,  2,  0,  //
                    0, 0, 0,  20, 0,  3,  //
                    0, 0, 0,  0,  30, 0,  //
                    0, 0, 0,  0,  0,  0}));
  EXPECT_EQ(values("function (A[N], K[M]) -> (O) { O[3 * y + 2 * j: 9] = +(A[y] * K[j]); }",
                   {vector_of({1, 2, 3}), vector_of({1, 10, 100, 1000})}),
            Values({1, 0, 10, 2, 100, 20, 1003, 200, 30}));
}

TEST(InterpretContraction, RationalOutput) {
  EXPECT_EQ(values("function (A[N, M]) -> (O) { O[i / 3 + j: 4] = +(A[i, j]); }",
                   {floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}),
            Values({1, 9, 8, 0}));
}

TEST(InterpretContraction, IndicesDeterminedByCoupledReadsOnly) {
  // No access is a single index: i + j and i - j determine both.
  EXPECT_EQ(values("function (A[N, M]) -> (O) { O[] = +(A[i + j, i - j]); }",
                   {floats({3, 2}, {1, 2, 4, 8, 16, 32})}),
            Values({1 + 8 + 16}));
}

TEST(InterpretContraction, UncoveredCellsAreZeroForEveryAggregation) {  // rule 4.3
  for (const char* agg : {"+", "*", ">", "<", "="}) {
    EXPECT_EQ(values("function (I[N]) -> (O) { O[2 * i: 5] = " + std::string(agg) + "(I[i]); }",
                     {vector_of({-3, 4})}),
              Values({-3, 0, 4, 0, 0}))
        << agg;
  }
}

TEST(InterpretContraction, DefaultFillsUncoveredCellsOnly) {  // rule 4.4
  EXPECT_EQ(values("function (I[N], P[M]) -> (O) { O[2 * i + 1: M] = +(I[i]) default P; }",
                   {vector_of({7, 8}), vector_of({1, 2, 3, 4, 5, 6})}),
            Values({1, 7, 3, 8, 5, 6}));
}

TEST(InterpretContraction, EmptySetsGiveZeros) {  // rule 4.5
  EXPECT_EQ(values("function (I[N]) -> (O) { O[i: N] = >(I[i + 10]); }", {vector_of({1, 2})}),
            Values({0, 0}));
  EXPECT_EQ(values("function (I[N, M]) -> (O) { O[i: N] = *(I[i, j]); }", {floats({2, 0}, {})}),
            Values({0, 0}));
  EXPECT_EQ(values("function (I[N]) -> (O) { O[i: N] = +(I[i]), i < 0; }", {vector_of({1, 2})}),
            Values({0, 0}));
  HostTensor none = run("function (I[N]) -> (O) { O[i: N] = +(I[i]); }", {vector_of({})});
  EXPECT_EQ(none.shape, Shape({0}));
}

TEST(InterpretContraction, AssignmentsThatMeetAreErrors) {  // rule 4.7
  std::string error = error_of_run("function (A[M], B[N]) -> (O) { O[i: M] = =(A[i] * B[j]); }",
                                   {vector_of({1, 2}), vector_of({3, 4})});
  EXPECT_NE(error.find("compile error"), std::string::npos) << error;
  EXPECT_NE(error.find("cell of O"), std::string::npos) << error;
  // One column: every point has a cell of its own.
  EXPECT_EQ(values("function (A[M], B[N]) -> (O) { O[i: M] = =(A[i] * B[j]); }",
                   {vector_of({1, 2}), vector_of({3})}),
            Values({3, 6}));
}

TEST(InterpretContraction, AggregationsAndTheirTypes) {  // rules 4.2, 4.8
  std::vector<HostTensor> in{floats({2, 3}, {2, -3, 4, 5, 6, -7})};
  auto text = [](const char* agg) {
    return "function (I[M, N]) -> (O) { O[m: M] = " + std::string(agg) + "(I[m, n]); }";
  };
  EXPECT_EQ(values(text("+"), in), Values({3, 4}));
  EXPECT_EQ(values(text("*"), in), Values({-24, -210}));
  EXPECT_EQ(values(text(">"), in), Values({4, 6}));
  EXPECT_EQ(values(text("<"), in), Values({-3, -7}));
  std::vector<HostTensor> flags{tensor(DType::bool_, {2, 3}, {1, 0, 1, 1, 1, 1})};
  EXPECT_EQ(run(text("+"), flags).type, DType::i32);
  EXPECT_EQ(values(text("+"), flags), Values({2, 3}));
  EXPECT_EQ(run(text("*"), flags).type, DType::i32);
  EXPECT_EQ(run(text(">"), flags).type, DType::bool_);
  EXPECT_EQ(values(text("<"), flags), Values({0, 1}));
}

TEST(InterpretContraction, NarrowTypesAccumulateWideAndConvertOnce) {  // rules 4.8, 4.8a
  Values many(300, 1.0);
  many[0] = 2048;  // f16 has no 2049
  EXPECT_EQ(values("function (I[N]) -> (O) { O[] = +(I[i]); }", {vector_of(DType::f16, many)}),
            Values({2348}));
  EXPECT_EQ(
      values("function (I[N]) -> (O) { O[] = +(I[i]); }", {vector_of(DType::i8, Values(200, 1.0))}),
      Values({200 - 256}));
  // 100 * 2 is 200 in 32 bits; the larger of 200 and 6, then stored in 8 bits.
  EXPECT_EQ(values("function (A[N], B[N]) -> (O) { O[] = >(A[i] * B[i]); }",
                   {vector_of(DType::i8, {100, 3}), vector_of(DType::i8, {2, 2})}),
            Values({200 - 256}));
}

TEST(InterpretContraction, ExtremesPropagateNan) {  // rule 4.8
  Values out = values("function (I[M, N]) -> (O) { O[m: M] = <(I[m, n]); }",
                      {floats({2, 2}, {1, kNan, -kInf, 2})});
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], -kInf);
}

TEST(InterpretContraction, BodiesAreScalarExpressions) {  // rule 4.9
  EXPECT_EQ(values("function (A[N]) -> (O) { O[i: N] = +(A[j] * (j + 1)), i - j < N; }",
                   {vector_of({1, 2, 3, 4})}),
            Values({1, 5, 14, 30}));
  EXPECT_EQ(values("function (A[N]) -> (O) { O[] = +(A[i] > 2 ? A[i] * N : 0 - 1.0); }",
                   {vector_of({1, 2, 3, 4})}),
            Values({12 + 16 - 2}));
}

TEST(InterpretContraction, UntakenArmsRestrictValidity) {  // rule 4.1
  EXPECT_EQ(values("function (A[N], B[M]) -> (O) { O[i: N] = +(i < 9 ? A[i] : B[i]); }",
                   {vector_of({1, 2, 3}), vector_of({7, 7})}),
            Values({1, 2, 0}));
}

TEST(InterpretContraction, ConditionalCombination) {  // rule 4.10
  EXPECT_EQ(values("function (A[N], B[M], C[M]) -> (O) { O[i: N] = +(A[i] == B[j] ? C[j]); }",
                   {vector_of({1, 2, 3}), vector_of({2, 1, 2, 9}), vector_of({10, 20, 30, 40})}),
            Values({20, 40, 0}));
}

TEST(InterpretContraction, NoDefractKeepsTheResult) {  // rule 4.11
  EXPECT_EQ(values("function (I[N]) -> (O) { O[2 * i: 6] = +(I[i]) no_defract; }",
                   {vector_of({1, 2, 3})}),
            Values({1, 0, 2, 0, 3, 0}));
}

TEST(InterpretContraction, ScalarsAndConstantCells) {  // rule 2.1
  EXPECT_EQ(values("function (I[N]) -> (O) { O[] = *(I[i]); }", {vector_of({2, 3, 4})}),
            Values({24}));
  EXPECT_EQ(values("function (I[N]) -> (O) { O[1: 3] = +(I[i]); }", {vector_of({2, 3, 4})}),
            Values({0, 9, 0}));
}

TEST(InterpretContraction, CountsValidPointsAndMagnitudes) {
  std::vector<HostTensor> in{floats({2, 3}, {1, -2, 3, -4, 5, 0})};
  BoundProgram program =
      bind_text("function (I[M, N]) -> (O) { O[m: M] = +(I[m, n]), n < 2; }", types_of(in));
  Interpretation result = interpret(program, in, {}, true);
  EXPECT_EQ(result.points, 4);
  EXPECT_EQ(values_of(result.outputs[0]), Values({-1, 1}));
  EXPECT_EQ(values_of(result.magnitudes.at(0)), Values({3, 9}));
}

TEST(InterpretContraction, RefusesMoreMemoryThanItMayUse) {  // rule 8.2
  std::string error = error_of_run(
      "function (A[N]) -> (O) { O[i, j: N, 1000000000000] = +(A[i] * A[j]); }", {vector_of({1})});
  EXPECT_NE(error.find("compile error [limit]"), std::string::npos) << error;
  EXPECT_NE(error.find("tensor O"), std::string::npos) << error;
}

TEST(InterpretContraction, StopsAtItsLimitAndWhenCancelled) {
  std::vector<HostTensor> in{vector_of(Values(100, 1.0))};
  BoundProgram program =
      bind_text("function (I[N]) -> (O) { O[] = +(I[i] * I[j] * I[k]); }", types_of(in));
  InterpretOptions limited;
  limited.point_limit = 1000;
  try {
    interpret(program, in, limited);
    FAIL() << "the limit did not stop the run";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.diagnostic().code, "limit");
    EXPECT_EQ(failure.diagnostic().stage, Stage::compile);
  }
  struct Over : Control {
    bool is_over() noexcept override { return ++asked > 3; }
    Failure reason(Span where) const override {
      return Failure({Stage::run, "cancelled", "enough", "", where});
    }
    int asked = 0;
  } over;
  try {
    Controlled now(&over);
    interpret(program, in);
    FAIL() << "cancelling did not stop the run";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.diagnostic().code, "cancelled");
    EXPECT_GT(failure.diagnostic().span.begin, 0U);  // the statement
  }
  EXPECT_EQ(current_control(), nullptr);
}

}  // namespace
}  // namespace tile::test
