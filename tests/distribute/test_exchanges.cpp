// What exchanges become of programs, told from their boxes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/distribute/sharded_run.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

const char* const kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";

std::vector<std::string> kinds(const PartitionedProgram& p) {
  std::vector<std::string> list;
  for (const ExchangeSummary& e : p.exchanges) list.emplace_back(to_string(e.cost.kind));
  return list;
}
std::vector<std::string> kinds(const std::string& text, const std::vector<InputType>& types,
                               const std::string& mesh, const std::string& layouts) {
  return kinds(divided(bind_text(text, types), mesh, layouts));
}

using Kinds = std::vector<std::string>;
const std::vector<InputType> kSquares{{DType::f32, {8, 8}}, {DType::f32, {8, 8}}};

TEST(Exchanges, AreClassifiedFromTheirBoxes) {
  EXPECT_EQ(kinds(kProduct, kSquares, "x=4", "A[x, *] B[*, x] C[x, *]"), Kinds{"all-gather"});
  EXPECT_EQ(kinds(kProduct, kSquares, "x=4", "A[*, x] B[x, *] C[*, *] C: k=x"),
            Kinds{"all-reduce"});
  EXPECT_EQ(kinds(kProduct, kSquares, "x=4", "A[*, x] B[x, *] C[x, *] C: k=x"),
            Kinds{"reduce-scatter"});
  const char* transpose = "function (A[M, N]) -> (O) { O[j, i: N, M] = =(A[i, j]); }";
  EXPECT_EQ(kinds(transpose, {{DType::f32, {8, 8}}}, "x=4", "A[x, *] O[x, *]"),
            Kinds{"all-to-all"});
  const char* stencil = "function (A[N]) -> (O) { O[i: N - 2] = +(A[i + j]), j < 3; }";
  EXPECT_EQ(kinds(stencil, {{DType::f32, {32}}}, "x=4", "A[x] O[x]"), Kinds{"halo"});
}

TEST(Exchanges, LongSumsAreAddedInPartsAndGathered) {
  const std::vector<InputType> large{{DType::f32, {128, 64}}, {DType::f32, {64, 128}}};
  PartitionedProgram p =
      divided(bind_text(kProduct, large), "x=4", "A[*, x] B[x, *] C[*, *] C: k=x");
  EXPECT_EQ(kinds(p), (Kinds{"reduce-scatter", "all-gather"}));
  int64_t bytes = 0;
  for (const ExchangeSummary& e : p.exchanges) bytes += e.cost.bytes;
  EXPECT_EQ(bytes, 2 * 3 * 128 * 128 * 4);  // each rank: 3/4 of C twice
}

TEST(Exchanges, GradientsOfDataParallelProductsAreReduced) {
  // What the gradient of a product computes: sums over the rows, which are divided.
  const char* gradient =
      "function (X[N, K], DY[N, M]) -> (DW) { DW[k, m: K, M] = +(X[n, k] * DY[n, m]); }";
  PartitionedProgram p =
      divided(bind_text(gradient, {{DType::f32, {64, 4}}, {DType::f32, {64, 4}}}), "x=4",
              "X[x, *] DY[x, *]");
  EXPECT_EQ(kinds(p), Kinds{"all-reduce"});
  ASSERT_EQ(p.statements.size(), 1u);
  ASSERT_EQ(p.statements[0].cuts.size(), 1u);
  EXPECT_EQ(p.statements[0].cuts[0].index, "n");
}

TEST(Exchanges, SoftmaxOverDividedRowsExchangesOneCellPerRow) {
  const char* softmax = R"(function (X[M, N]) -> (P) {
  Top[m, 0: M, 1] = >(X[m, n]);
  E = exp(X - Top);
  Sum[m, 0: M, 1] = +(E[m, n]);
  P = E / Sum;
})";
  PartitionedProgram p =
      divided(bind_text(softmax, {{DType::f32, {8, 64}}}), "x=4", "X[*, x] P[*, x]");
  EXPECT_EQ(kinds(p), (Kinds{"all-reduce", "all-reduce"}));
  for (const ExchangeSummary& e : p.exchanges) EXPECT_EQ(e.cost.bytes, 4 * 3 * 8 * 4);
}

TEST(Exchanges, HalosReachAnyNumberOfRanks) {
  const char* wide = "function (A[N]) -> (O) { O[i: N - 9] = +(A[i + j]), j < 10; }";
  std::vector<HostTensor> inputs{HostTensor(DType::f32, {24})};
  for (int64_t i = 0; i < 24; ++i) inputs[0].set(i, real_scalar(1.0 / double(i + 1), DType::f32));
  BoundProgram program = bind_text(wide, types_of(inputs));
  PartitionedProgram p = divided(program, "x=8", "A[x] O[x]");
  EXPECT_EQ(run_ranks(p, program, inputs)[0].bytes,
            interpret(program, inputs, kInOrder).outputs[0].bytes);
}

TEST(Exchanges, BytesAreThoseOfTheHalo) {
  const char* stencil = "function (A[N]) -> (O) { O[i: N - 2] = +(A[i + j]), j < 3; }";
  PartitionedProgram p = divided(bind_text(stencil, {{DType::f32, {34}}}), "x=2", "A[x] O[x]");
  ASSERT_EQ(p.exchanges.size(), 1u);
  // Rank 0 has 17 cells of A and computes 16 cells, for which it reads 18.
  EXPECT_EQ(p.exchanges[0].cost.bytes, 1 * 4 + 1 * 4);
  EXPECT_EQ(p.exchanges[0].cost.messages, 2);
}

TEST(Exchanges, ReplicasComputeTwice) {
  PartitionedProgram p = divided(bind_text(kProduct, kSquares), "x=2, y=2", "C[x, *]");
  ASSERT_EQ(p.statements.size(), 1u);
  EXPECT_EQ(p.statements[0].times, 2);
}

TEST(Exchanges, PartialSumsStayUntilTheyAreRead) {
  const char* text =
      "function (A[M, L], B[L, N]) -> (R) { C[i, j: M, N] = +(A[i, k] * B[k, j]); R = C + C; }";
  BoundProgram program = bind_text(text, kSquares);
  PartitionedProgram p = divided(program, "x=4", "A[*, x] B[x, *] C[*, *] + x  C: k=x  R[x, *]");
  EXPECT_EQ(kinds(p), Kinds{"reduce-scatter"});
}

}  // namespace
}  // namespace tile::test
