// Whole-tensor operations (core/language/tile/REFERENCE.md rule 6.4).
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

HostTensor call(const std::string& expression, const std::vector<HostTensor>& inputs) {
  std::string names = inputs.size() == 1 ? "A" : "A, B";
  return run("function (" + names + ") -> (O) { O = " + expression + "; }", inputs);
}
const HostTensor& matrix() {
  static const HostTensor m = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  return m;
}
void expect(const HostTensor& got, DType type, const Shape& shape, const Values& wanted) {
  EXPECT_EQ(got.type, type);
  EXPECT_EQ(got.shape, shape);
  EXPECT_EQ(values_of(got), wanted);
}

TEST(BindCalls, ShapeAndIndex) {
  expect(call("shape(A)", {matrix()}), DType::i64, {2}, {2, 3});
  expect(call("shape(A)", {floats({}, {1})}), DType::i64, {0}, {});
  expect(call("index(A, 0)", {matrix()}), DType::i64, {2, 3}, {0, 0, 0, 1, 1, 1});
  expect(call("index(A, 1)", {matrix()}), DType::i64, {2, 3}, {0, 1, 2, 0, 1, 2});
}

TEST(BindCalls, ReshapeKeepsRowMajorOrder) {
  expect(call("reshape(A, 3, 2)", {matrix()}), DType::f32, {3, 2}, {1, 2, 3, 4, 5, 6});
  // A view of a temporary, read by a contraction; and a view of a view.
  expect(run("function (A[N, M]) -> (O) { T = A + 1; R = reshape(T, M, N); O[j: N] = +(R[i, j]); }",
             {matrix()}),
         DType::f32, {2}, {2 + 4 + 6, 3 + 5 + 7});
  expect(
      run("function (A) -> (O) { T = A + 1; R = reshape(T, 6); S = reshape(R, 1, 6); O = S * 2; }",
          {matrix()}),
      DType::f32, {1, 6}, {4, 6, 8, 10, 12, 14});
  std::string error = error_of_run("function (A) -> (O) { O = reshape(A, 4); }", {matrix()});
  EXPECT_NE(error.find("bind error"), std::string::npos) << error;
  EXPECT_NE(error.find("[2, 3]"), std::string::npos) << error;
}

TEST(BindCalls, SortOfAView) {
  expect(
      run("function (A) -> (O) { T = 0 - A; R = reshape(T, 3, 2); O = sort(R, 0); }", {matrix()}),
      DType::f32, {3, 2}, {-5, -6, -3, -4, -1, -2});
}

TEST(BindCalls, GatherClamps) {
  expect(call("gather(A, B)", {matrix(), vector_of(DType::i32, {1, -5, 9})}), DType::f32, {3, 3},
         {4, 5, 6, 1, 2, 3, 4, 5, 6});
  expect(call("gather(A, B)", {vector_of({1, 2, 3}), tensor(DType::u64, {2, 1}, {1, 1e19})}),
         DType::f32, {2, 1}, {2, 3});
  EXPECT_NE(
      error_of_run("function (A, B) -> (O) { O = gather(A, B); }", {matrix(), vector_of({1.0})})
          .find("integer indices"),
      std::string::npos);
}

TEST(BindCalls, ScatterAddsAndClamps) {
  expect(run("function (A, B) -> (O) { O = scatter(A, B, 4); }",
             {floats({3, 2}, {1, 2, 3, 4, 5, 6}), vector_of(DType::i64, {2, 2, 99})}),
         DType::f32, {4, 2}, {0, 0, 0, 0, 4, 6, 5, 6});
  expect(run("function (A, B) -> (O) { O = scatter(A, B, 2); }",
             {vector_of(DType::i8, {100, 100, 1}), vector_of(DType::i8, {0, 0, 1})}),
         DType::i8, {2}, {200 - 256, 1});
}

TEST(BindCalls, TransposeMovesAxes) {
  expect(call("transpose(A, 1, 0)", {matrix()}), DType::f32, {3, 2}, {1, 4, 2, 5, 3, 6});
  expect(call("transpose(A, 2, 0, 1)", {floats({1, 2, 3}, {1, 2, 3, 4, 5, 6})}), DType::f32,
         {3, 1, 2}, {1, 4, 2, 5, 3, 6});
  EXPECT_NE(
      error_of_run("function (A) -> (O) { O = transpose(A, 0, 0); }", {matrix()}).find("bind"),
      std::string::npos);
}

TEST(BindCalls, ConcatJoinsAndPromotes) {
  expect(call("concat(0, A, B)", {vector_of(DType::i8, {1, 2}), vector_of({0.5})}), DType::f32, {3},
         {1, 2, 0.5});
  expect(call("concat(1, A, B)", {matrix(), floats({2, 1}, {7, 8})}), DType::f32, {2, 4},
         {1, 2, 3, 7, 4, 5, 6, 8});
  std::string error = error_of_run("function (A, B) -> (O) { O = concat(0, A, B); }",
                                   {matrix(), floats({2, 1}, {7, 8})});
  EXPECT_NE(error.find("cannot join B"), std::string::npos) << error;
}

TEST(BindCalls, SliceSteps) {
  HostTensor a = vector_of({0, 1, 2, 3, 4, 5, 6});
  expect(call("slice(A, 0, 1, 6, 2)", {a}), DType::f32, {3}, {1, 3, 5});
  expect(call("slice(A, 0, 4, 99, 1)", {a}), DType::f32, {3}, {4, 5, 6});
  expect(call("slice(A, 0, 5, 3, 1)", {a}), DType::f32, {0}, {});
  expect(call("slice(A, 0, 5, 0 - 1, 0 - 2)", {a}), DType::f32, {3}, {5, 3, 1});
  HostTensor empty(DType::f32, {0});
  expect(call("slice(A, 0, 0 - 1, 0 - 1, 0 - 1)", {empty}), DType::f32, {0}, {});
  EXPECT_NE(error_of_run("function (A) -> (O) { O = slice(A, 0, 0, 0 - 1, 0 - 1); }", {empty})
                .find("bind"),
            std::string::npos);
  EXPECT_NE(error_of_run("function (A) -> (O) { O = slice(A, 0, 0, 3, 0); }", {a}).find("bind"),
            std::string::npos);
}

TEST(BindCalls, ArgmaxTakesTheFirst) {
  expect(call("argmax(A, 1)", {floats({3, 3}, {1, 3, 3, 2, 2, 2, 0, kNan, kNan})}), DType::i64, {3},
         {1, 0, 1});
  expect(call("argmin(A, 1)", {floats({3, 3}, {3, 1, 1, 2, 2, 2, 0, 1, kNan})}), DType::i64, {3},
         {1, 0, 2});
  expect(call("argmax(A, 0)", {matrix()}), DType::i64, {3}, {1, 1, 1});
  expect(call("argmax(A, 0)", {vector_of(DType::u8, {3, 255, 255})}), DType::i64, {}, {1});
}

TEST(BindCalls, SortIsStableWithNanLast) {
  Values sorted = values_of(call("sort(A, 0)", {vector_of({3, kNan, -1, 2})}));
  EXPECT_EQ(Values(sorted.begin(), sorted.begin() + 3), Values({-1, 2, 3}));
  EXPECT_TRUE(std::isnan(sorted[3]));
  expect(call("argsort(A, 0)", {vector_of({2, kNan, 1, 2, kNan, 1})}), DType::i64, {6},
         {2, 5, 0, 3, 1, 4});
  expect(call("sort(A, 0)", {floats({2, 2}, {4, 1, 3, 2})}), DType::f32, {2, 2}, {3, 1, 4, 2});
}

TEST(BindCalls, Cumsum) {
  expect(call("cumsum(A, 1)", {matrix()}), DType::f32, {2, 3}, {1, 3, 6, 4, 9, 15});
  expect(call("cumsum(A, 0)", {vector_of(DType::bool_, {1, 0, 1})}), DType::i32, {3}, {1, 1, 2});
}

TEST(BindCalls, UniformDependsOnSeedAndPositionOnly) {
  HostTensor seed = tensor(DType::i64, {}, {42});
  HostTensor flat = call("prng_uniform(A, 6)", {seed});
  HostTensor square = call("prng_uniform(A, 2, 3)", {seed});
  EXPECT_EQ(square.shape, Shape({2, 3}));
  EXPECT_EQ(values_of(flat), values_of(square));
  for (int64_t i = 0; i < 6; ++i) {
    double wanted = static_cast<double>(uniform_bits(42, i) >> 40) * 0x1p-24;
    EXPECT_EQ(flat.at(i).f, wanted);
  }
  EXPECT_NE(values_of(flat), values_of(call("prng_uniform(A, 6)", {tensor(DType::i64, {}, {43})})));
}

TEST(BindCalls, SumToUndoesBroadcasting) {
  expect(call("sum_to(A, B)", {matrix(), floats({3}, {0, 0, 0})}), DType::f32, {3}, {5, 7, 9});
  expect(call("sum_to(A, B)", {matrix(), floats({2, 1}, {0, 0})}), DType::f32, {2, 1}, {6, 15});
  expect(call("sum_to(A, B)", {matrix(), floats({}, {0})}), DType::f32, {}, {21});
  expect(call("sum_to(A, B)", {matrix(), floats({1, 1}, {0})}), DType::f32, {1, 1}, {21});
  expect(call("sum_to(A, B)", {floats({1}, {7}), floats({2, 2}, {0, 0, 0, 0})}), DType::f32, {2, 2},
         {7, 7, 7, 7});
  EXPECT_NE(
      error_of_run("function (A, B) -> (O) { O = sum_to(A, B); }", {matrix(), floats({2}, {0, 0})})
          .find("bind"),
      std::string::npos);
}

TEST(BindCalls, AxesAreChecked) {
  std::string error = error_of_run("function (A) -> (O) { O = cumsum(A, 2); }", {matrix()});
  EXPECT_NE(error.find("axis 2"), std::string::npos) << error;
  EXPECT_NE(error.find("[2, 3]"), std::string::npos) << error;
}

}  // namespace
}  // namespace tile::test
