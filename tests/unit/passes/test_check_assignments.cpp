// Rule 4.7: `=` and points that meet; exact, and the same answer as the interpreter's.
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

std::string error_of_check(const std::string& text, const std::vector<InputType>& types) {
  BoundProgram program = bind_text(text, types);
  try {
    check_assignments(program);
  } catch (const Failure& failure) {
    return render(failure.diagnostic(), Source{"test.tile", text});
  }
  return "";
}

// The check and the interpreter must both find (or not find) two points in one cell.
void expect_overlap(bool overlap, const std::string& text, const std::vector<Shape>& shapes) {
  std::vector<HostTensor> inputs;
  for (const Shape& shape : shapes) inputs.emplace_back(DType::f32, shape);
  std::string checked = error_of_check(text, types_of(inputs));
  std::string ran = error_of_run(text, inputs);
  EXPECT_EQ(!checked.empty(), overlap) << text << "\n" << checked;
  EXPECT_EQ(!ran.empty(), overlap) << text << "\n" << ran;
  if (overlap) {
    EXPECT_NE(checked.find("compile error [overlap]"), std::string::npos) << checked;
    EXPECT_NE(checked.find("cell of O"), std::string::npos) << checked;
  }
}

TEST(CheckAssignments, FreeIndices) {
  const char* outer = "function (A[M], B[N]) -> (O) { O[i: M] = =(A[i] * B[j]); }";
  expect_overlap(true, outer, {{3}, {2}});
  expect_overlap(false, outer, {{3}, {1}});
  expect_overlap(false, outer, {{3}, {0}});
  expect_overlap(false, outer, {{0}, {5}});
}

TEST(CheckAssignments, FlattenedOutputs) {
  const char* flat = "function (A[N, M]) -> (O) { O[S1 * i + j: 40] = =(A[i, j]); }";
  auto with = [&](const char* stride) {
    std::string text = flat;
    return text.replace(text.find("S1"), 2, stride);
  };
  expect_overlap(false, with("4"), {{3, 4}});
  expect_overlap(true, with("3"), {{3, 4}});
  expect_overlap(false, with("3"), {{1, 4}});
  expect_overlap(false, with("12"), {{3, 4}});
}

TEST(CheckAssignments, ConstraintsSeparatePoints) {
  expect_overlap(false, "function (A[N], B[M]) -> (O) { O[i + j: 9] = =(A[i] * B[j]), j - i < 1; }",
                 {{2}, {1}});
  expect_overlap(true, "function (A[N], B[M]) -> (O) { O[i + j: 9] = =(A[i] * B[j]); }",
                 {{3}, {3}});
  expect_overlap(false, "function (A[N], B[M]) -> (O) { O[i: 9] = =(A[i] * B[j]), j - i < 1; }",
                 {{3}, {3}});
  // At most one j has 0 <= j / 3 - i < 1 / 3, which is no whole bound; j = 3 * i only.
  expect_overlap(false, "function (A[N], B[M]) -> (O) { O[i: 9] = =(A[i] * B[j]), 3 * i - j < 1; }",
                 {{3}, {9}});
}

TEST(CheckAssignments, ParityAndRationalAccesses) {
  // j / 2 is whole for even j only, so that 2 * i + j has one solution for each cell when j < 2.
  expect_overlap(false,
                 "function (A[N], B[M]) -> (O) { O[2 * i + j: 9] = =(A[i] * B[j / 2]), j < 2; }",
                 {{3}, {3}});
  expect_overlap(true,
                 "function (A[N], B[M]) -> (O) { O[2 * i + j: 9] = =(A[i] * B[j / 2]), j < 3; }",
                 {{3}, {3}});
  expect_overlap(false, "function (A[N, M]) -> (O) { O[i + j, i - j + 3: 9, 9] = =(A[i, j]); }",
                 {{3, 4}});
}

TEST(CheckAssignments, WholeTensorCallsNeverMeet) {
  EXPECT_EQ(error_of_check("function (A, B) -> (O, P, Q) { O = concat(1, A, B, A); P = shape(A);"
                           " Q = transpose(A, 1, 0) * 2; }",
                           {{DType::f32, {2, 3}}, {DType::f32, {2, 1}}}),
            "");
}

TEST(CheckAssignments, LargeSizesAreDecidedWithoutEnumeration) {
  constexpr int64_t kBig = 1 << 20;
  EXPECT_EQ(error_of_check("function (A[N, M]) -> (O) { O[M * i + j: N * M] = =(A[i, j]); }",
                           {{DType::f32, {kBig, 1000}}}),
            "");
  EXPECT_NE(error_of_check("function (A[N, M]) -> (O) { O[(M - 1) * i + j: N * M] = =(A[i, j]); }",
                           {{DType::f32, {kBig, 1000}}}),
            "");
}

}  // namespace
}  // namespace tile::test
