// Shapes, sizes and ranks (core/language/tile/REFERENCE.md sections 2, 3, 4, 6.1).
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

using Types = std::vector<InputType>;

// The error of a text must be of stage bind and name each word.
void expect_bind_error(const std::string& text, const Types& types,
                       const std::vector<std::string>& words) {
  std::string error = error_of_bind(text, types);
  EXPECT_NE(error.find("bind error"), std::string::npos) << text << "\n" << error;
  for (const std::string& word : words) {
    EXPECT_NE(error.find(word), std::string::npos) << word << " in\n" << error;
  }
}
InputType floats_of(Shape shape) { return {DType::f32, std::move(shape)}; }

TEST(BindShapes, RepeatedDimensionsMustAgree) {  // rule 2.2
  expect_bind_error("function (A[N, N]) -> (O) { O[i: N] = +(A[i, j]); }", {floats_of({2, 3})},
                    {"N is 2 in A", "dimension 1 of A is 3", ":1:16:"});
  expect_bind_error("function (A[N], B[N]) -> (O) { O = A + B; }", {floats_of({2}), floats_of({1})},
                    {"N is 2 in A", "dimension 0 of B is 1"});
}

TEST(BindShapes, LiteralSizesAreRequired) {  // rule 2.2
  expect_bind_error("function (A[3]) -> (O) { O = A; }", {floats_of({4})},
                    {"must be 3", "it is 4"});
  EXPECT_EQ(error_of_bind("function (A[3]) -> (O) { O = A; }", {floats_of({3})}), "");
}

TEST(BindShapes, RanksAndInputCounts) {  // rules 2.2, 2.4
  expect_bind_error("function (A[N]) -> (O) { O = A; }", {floats_of({2, 3})},
                    {"A is declared", "[2, 3]"});
  expect_bind_error("function (A) -> (O) { O[i: 2] = +(A[i]); }", {floats_of({2, 3})},
                    {"A has 2 dimensions", "1 indices", ":1:35:"});
  expect_bind_error("function (A) -> (O) { B = A + 1; O[i: 2] = +(B[i]); }", {floats_of({2, 3})},
                    {"B has 2 dimensions"});
  expect_bind_error("function (A, B) -> (O) { O = A; }", {floats_of({2})}, {"2 inputs"});
  EXPECT_EQ(error_of_bind("function (A) -> (O) { O[] = +(A[i, j, k]); }", {floats_of({1, 2, 3})}),
            "");
}

TEST(BindShapes, RanksHaveALimit) {  // rule 8.2
  expect_bind_error("function (A) -> (O) { O = A; }", {floats_of(Shape(65, 1))},
                    {"A has 65 dimensions", "64"});
  expect_bind_error("function (A, I) -> (O) { O = gather(A, I); }",
                    {floats_of(Shape(40, 1)), {DType::i32, Shape(40, 1)}}, {"O has 79 dimensions"});
  EXPECT_EQ(error_of_bind("function (A) -> (O) { O = A; }", {floats_of(Shape(64, 1))}), "");
}

TEST(BindShapes, SizesAreChecked) {  // rule 3.2
  expect_bind_error("function (A[N]) -> (O) { O[i: N - 5] = +(A[i]); }", {floats_of({3})},
                    {"N - 5", "of O", "negative"});
  expect_bind_error("function (A[N]) -> (O) { O[i: 7 / N] = +(A[i]); }", {floats_of({0})},
                    {"7 / N", "of O", "zero"});
  expect_bind_error("function (A[N]) -> (O) { O[i: N * N * N * N * N * N * N * N] = +(A[i]); }",
                    {floats_of({1000})}, {"of O", "64 bits"});
  expect_bind_error("function (A[N]) -> (O) { O[i: N] = +(A[i / (N - 3)]); }", {floats_of({3})},
                    {"of A", "zero"});
  EXPECT_EQ(
      error_of_bind("function (A[N]) -> (O) { O[i: max(N - 5, 1)] = +(A[i]); }", {floats_of({3})}),
      "");
}

TEST(BindShapes, HugeTensorsAreRefusedNotAllocated) {  // rules 3.3, 8.2
  constexpr int64_t kBig = int64_t{1} << 40;
  expect_bind_error("function (A[N], B[M]) -> (O) { O[i, j: N, M] = +(A[i] * B[j]); }",
                    {floats_of({kBig}), floats_of({kBig})}, {"O of shape", "too many"});
  // More than 2^31 elements are addressed, only not in this process's memory.
  BoundProgram program = bind_text("function (A[N]) -> (O) { O = A + A; }", {floats_of({kBig})});
  EXPECT_EQ(program.tensors[1].shape, Shape({kBig}));
}

TEST(BindShapes, UnboundedIndicesAreNamed) {  // rule 4.6
  expect_bind_error("function (A[N]) -> (O) { O[i: N] = +(A[i] * k); }", {floats_of({3})},
                    {"index k", "of O", ":1:26:"});
  expect_bind_error("function (A[N]) -> (O) { O[i: N] = +(A[i + j - k]); }", {floats_of({3})},
                    {"index k"});
  EXPECT_EQ(error_of_bind("function (A[N]) -> (O) { O[i: N] = +(A[i + j]); }", {floats_of({3})}),
            "");
  EXPECT_EQ(error_of_bind("function (A[N]) -> (O) { O[i: N] = +(A[i] * k), k + i < 4; }",
                          {floats_of({3})}),
            "");
}

TEST(BindShapes, DefaultsHaveTheOutputsShapeAndType) {  // rule 4.4
  expect_bind_error("function (A[N], P[M]) -> (O) { O[i: N] = +(A[i]) default P; }",
                    {floats_of({3}), floats_of({4})}, {"P is f32[4]", "O is f32[3]"});
  expect_bind_error("function (A[N], P[M]) -> (O) { O[i: N] = +(A[i]) default P; }",
                    {floats_of({3}), {DType::i32, {3}}}, {"P is i32[3]"});
}

TEST(BindShapes, Broadcasting) {  // rule 6.1
  HostTensor a = floats({2, 1}, {1, 2}), b = floats({3}, {10, 20, 30});
  HostTensor sum = run("function (A, B) -> (O) { O = A + B; }", {a, b});
  EXPECT_EQ(sum.shape, Shape({2, 3}));
  EXPECT_EQ(values_of(sum), Values({11, 21, 31, 12, 22, 32}));
  HostTensor chosen =
      run("function (C, A, B) -> (O) { O = C ? A : B; }", {vector_of({1, 0, 1}), a, b});
  EXPECT_EQ(values_of(chosen), Values({1, 20, 1, 2, 20, 2}));
  EXPECT_EQ(
      run("function (A, B) -> (O) { O = A + B; }", {floats({1, 2}, {1, 2}), floats({0, 1}, {})})
          .shape,
      Shape({0, 2}));
}

TEST(BindShapes, ImpossibleBroadcastsNameBothShapes) {  // rule 6.1
  expect_bind_error("function (A, B) -> (O) { O = A + B; }",
                    {floats_of({1, 2}), floats_of({3, 1, 3})},
                    {"[1, 2] of A", "[3, 1, 3] of B", ":1:34:"});
  expect_bind_error("function (A, B, C) -> (O) { O = C ? A : B; }",
                    {floats_of({2}), floats_of({2}), floats_of({3})}, {"[3] of C", "[2]"});
}

TEST(BindShapes, HugeCoefficientsAreErrorsNotCrashes) {  // rules 3.2, 8.2
  for (const char* index : {"4611686018427387904 * i * 4", "i * 3037000500 * 3037000500 + j * 2",
                            "i / 4611686018427387903 + j / 4611686018427387902"}) {
    std::string text =
        "function (A[N]) -> (O) { O[i: N, j: 2] = +(A[" + std::string(index) + "]); }";
    text.replace(text.find("O[i: N, j: 2]"), 13, "O[i, j: N, 2]");
    std::string error = error_of_run(text, {vector_of({1, 2, 3})});
    EXPECT_NE(error.find(" error ["), std::string::npos) << index << error;
    EXPECT_NE(error.find("64 bits"), std::string::npos) << index << error;
  }
}

TEST(BindShapes, EveryStatementIsChecked) {
  expect_bind_error("function (A, B) -> (O) { T = A + B; O = A; }",
                    {floats_of({2}), floats_of({3})}, {"[2] of A", "[3] of B"});
}

}  // namespace
}  // namespace tile::test
