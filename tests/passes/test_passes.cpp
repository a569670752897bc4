// The tensor-level passes keep what a program means: the interpreter runs it before and after each
// one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/interpret/interpret.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"
#include "core/pipeline/pipeline.h"

namespace tile {
namespace {

Program parsed(const std::string& text) {
  return parse_tile(std::make_shared<Source>(Source{"test", text}));
}

// Small integers, the same every time; sums of products of them are exact in f32.
HostTensor filled(const InputType& type, int64_t salt) {
  HostTensor t(type.type, type.shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    t.set(i, integer_scalar((i * 7 + salt * 5 + i * i % 3) % 9 - 3, type.type));
  }
  return t;
}

void expect_same(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b,
                 std::string_view pass) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].shape, b[i].shape);
    for (int64_t j = 0; j < a[i].count(); ++j) {
      ASSERT_TRUE(same_value(a[i].at(j), b[i].at(j)))
          << "after " << pass << ": element " << j << " " << a[i].at(j).f << " became "
          << b[i].at(j).f;
    }
  }
}

BoundProgram checked_pipeline(const std::string& text, const std::vector<InputType>& types) {
  BoundProgram program = tile::bind(parsed(text), types);
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < types.size(); ++i) {
    inputs.push_back(filled(types[i], static_cast<int64_t>(i)));
  }
  Interpretation before = interpret(program, inputs);
  PipelineOptions options;
  options.after = [&](std::string_view pass, const BoundProgram& now) {
    Interpretation after = interpret(now, inputs);
    expect_same(before.outputs, after.outputs, pass);
  };
  run_pipeline(program, {}, options);
  return program;
}

const Contraction& contraction(const BoundProgram& program, size_t i) {
  return std::get<Contraction>(program.statements[i]);
}
InputType f32(Shape shape) { return {DType::f32, std::move(shape)}; }

TEST(Passes, MatrixProductStaysAsWritten) {
  BoundProgram p = checked_pipeline(
      "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }",
      {f32({5, 7}), f32({7, 3})});
  ASSERT_EQ(p.statements.size(), 1U);
  const Contraction& c = contraction(p, 0);
  ASSERT_EQ(c.pieces.size(), 1U);
  EXPECT_THAT(c.pieces[0].iterators, testing::ElementsAre("i", "j", "k"));
  EXPECT_THAT(c.pieces[0].box, testing::ElementsAre(5, 3, 7));
  EXPECT_TRUE(c.pieces[0].constraints.empty());
}

// The worked example of a strided, dilated convolution; rule 7.5's split.
TEST(Passes, StridedDilatedGradientHasOnePieceForEachResidue) {
  BoundProgram p =
      checked_pipeline("function (DO[N], K[L]) -> (DI) { DI[3 * y + 2 * j: 9] = +(DO[y] * K[j]); }",
                       {f32({3}), f32({4})});
  EXPECT_EQ(contraction(p, 0).pieces.size(), 3U);
  for (const Piece& piece : contraction(p, 0).pieces) EXPECT_EQ(piece.parallel_dims, 1U);
  BoundProgram q = checked_pipeline(
      "function (DO[N, H, W, CO], K[KH, KW, CI, CO]) -> (DI) {"
      " DI[n, 3*y + 2*j, 3*x + 2*i, ci: N, 9, 9, CI] = +(DO[n, y, x, co] * K[j, i, ci, co]); }",
      {f32({2, 3, 3, 2}), f32({4, 4, 3, 2})});
  EXPECT_EQ(contraction(q, 0).pieces.size(), 9U);
}

TEST(Passes, EveryFormOfIndexKeepsItsValue) {
  const char* bodies[] = {"O[n: N + 1] = +(I[m, n]);",
                          "O[n: N - 1] = >(I[m, n]);",
                          "O[2 * i: M] = +(I[2 * i, j]);",
                          "O[i + j, i - j + 3: 8, 8] = +(I[i, j]);",
                          "O[i / 3 + j: 9] = +(I[i, j]);",
                          "O[i: M] = *(I[k, j]), i - k < M;",
                          "O[i: M] = <(I[i + 10, j]);",
                          "O[6 * i + j: 42] = =(I[i, j]);",
                          "O[i, j: 6, 7] = +(I[j, i]);",
                          "O[x: 5] = +(I[(x - k + 1) / 2, k]);",
                          "O[] = +(I[i, j] * (i + 2 * j));",
                          "O[i: M] = >(I[i, j] + I[i, k]), j - k < 2;",
                          "O[3 * i - 2 * j + 9: 40] = +(I[i, j]);",
                          "O[i: 4] = +(I[i, j]), i / 2 + j < 3;",
                          "O[i, j: M, N] = *(I[i, j] * I[j, k]), i - j - k < 3;",
                          "O[2 * i: M] = +(I[3 * i, j]);"};
  for (const char* body : bodies) {
    SCOPED_TRACE(body);
    checked_pipeline("function (I[M, N]) -> (O) { " + std::string(body) + " }", {f32({7, 6})});
  }
}

// rule 5.7: rounding of assigned tensors survives inlining.
TEST(Passes, ChainsAreInlinedWithTheirRounding) {
  std::string text =
      "function (A, B) -> (O) { C = A * B + 1; D = C / 3; E = D * D; O = E - relu(C); }";
  BoundProgram p = checked_pipeline(text, {f32({4, 1, 5}), f32({3, 1})});
  EXPECT_EQ(p.statements.size(), 1U);
  checked_pipeline(text, {{DType::f16, {4, 1, 5}}, {DType::f16, {3, 1}}});
  checked_pipeline(text, {{DType::i8, {4, 1, 5}}, {DType::i8, {3, 1}}});
}

TEST(Passes, SoftmaxKeepsItsReductionsAndInlinesItsChains) {
  BoundProgram p = checked_pipeline(
      "function (I[M, N]) -> (O) { Mx[m, 0: M, 1] = >(I[m, n]); E = exp(I - Mx);"
      " S[m, 0: M, 1] = +(E[m, n]); O = E / S; }",
      {f32({3, 4})});
  EXPECT_LE(p.statements.size(), 4U);
}

TEST(Passes, EqualStatementsAreComputedOnce) {
  BoundProgram p = checked_pipeline(
      "function (A[M, N]) -> (O) { S[i: M] = +(A[i, j]); T[k: M] = +(A[k, l]); O = S * T; }",
      {f32({3, 4})});
  EXPECT_EQ(p.statements.size(), 2U);
}

TEST(Passes, DeadStatementsGo) {
  BoundProgram p = checked_pipeline(
      "function (A[M, N]) -> (O) { S[i: M] = +(A[i, j]); O = A + 1; }", {f32({3, 4})});
  EXPECT_EQ(p.statements.size(), 1U);
}

TEST(Passes, AFullReductionIsSplitIntoChunks) {
  BoundProgram p =
      checked_pipeline("function (A[M, N]) -> (S) { S[] = +(A[i, j]); }", {f32({1031, 307})});
  EXPECT_EQ(p.statements.size(), 2U);
}

TEST(Passes, WholeTensorOperations) {
  checked_pipeline(
      "function (A[M, N]) -> (O, P, Q, R, T) { O = reshape(A * 2, N, M); P = transpose(O, 1, 0) + "
      "A * 0 +"
      " reshape(A, M, N); Q = concat(0, A, A + 1); R = slice(A, 1, 0, N, 2); T = cumsum(A, 1); }",
      {f32({4, 6})});
}

// Rule 4.3: cells without points stay zero, whatever the value is there.
TEST(Passes, ConditionsOfCheapMapsAreChoices) {
  BoundProgram program = checked_pipeline(
      "function (A[S], E[S, T]) -> (O) { B[s, t: S, T] = +(A[s]), s - t < S; D = E * B;"
      "O[s: S] = +(D[s, t]); }",
      {f32({5}), f32({5, 6})});
  ASSERT_EQ(program.statements.size(), 1U) << print(program);
  EXPECT_TRUE(contraction(program, 0).pieces[0].constraints.empty());
}

TEST(Passes, ConditionsOfWhatIsNoMapStay) {
  // Reads outside where the condition does not hold; costs more than to store; is a result.
  for (const char* text :
       {"function (A[S], E[S, T]) -> (O) { B[s, t: S, T] = +(A[s - t]), s - t < S; D = E * B;"
        "O[s: S] = +(D[s, t]); }",
        "function (A[S], E[S, T]) -> (O) { B[s, t: S, T] = +(exp(A[s])), s - t < S; D = E * B;"
        "O[s: S] = +(D[s, t]); }",
        "function (A[S], E[S, T]) -> (B) { B[s, t: S, T] = +(A[s] + E[s, t]), s - t < S; }"}) {
    BoundProgram program = checked_pipeline(text, {f32({5}), f32({5, 6})});
    EXPECT_FALSE(contraction(program, 0).pieces[0].constraints.empty()) << print(program);
  }
}

}  // namespace
}  // namespace tile
