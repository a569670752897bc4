// core/language/tile/REFERENCE.md section 2: programs, statements, names, ranks, and expressions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tile_text.h"

namespace tile::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const SymbolicContraction& contraction(const Program& p, size_t i = 0) {
  return std::get<SymbolicContraction>(p.statements.at(i).what);
}

// The expression as printed with the fewest parentheses.
std::string normal(const std::string& expression) {
  std::string text = print(parse_text("function (A, B, C, D) -> (O) { O = " + expression + "; }"));
  size_t begin = text.find("O = ") + 4;
  return text.substr(begin, text.find(';') - begin);
}

TEST(TileGrammar, ContractionParts) {
  Program p = parse_text(
      "function (A[N, M], P[N]) -> (O) {"
      " O[2*i: N] = >(A[i, j] * A[i, j]), i + j < N - 1, j < 3 default P no_defract; }");
  const SymbolicContraction& c = contraction(p);
  EXPECT_EQ(c.aggregation, Aggregation::max);
  EXPECT_EQ(c.indices, (std::vector<std::string>{"i", "j"}));
  EXPECT_EQ(c.accesses.size(), 1u);  // the two reads are one
  EXPECT_EQ(c.constraints.size(), 2u);
  EXPECT_EQ(c.default_tensor, TensorId{1});
  EXPECT_TRUE(c.no_defract);
}

TEST(TileGrammar, AllAggregations) {
  for (const char* symbol : {"+", "*", ">", "<", "="}) {
    Program p = parse_text(with_inputs(std::string("O[i: N] = ") + symbol + "(V[i]);"));
    EXPECT_EQ(to_string(contraction(p).aggregation), symbol);
  }
  EXPECT_THAT(error_of(with_inputs("O[i: N] = -(V[i]);")), HasSubstr("aggregation"));
  EXPECT_THAT(error_of(with_inputs("O[i: N] ==(V[i]);")), HasSubstr("= ="));
}

TEST(TileGrammar, BodiesOfTwoAndThreeAccesses) {
  Body sum = contraction(parse_text(with_inputs("O[] = +(V[i] + V[i + 1]);"))).body;
  EXPECT_EQ(sum[sum.results[0]].op, Op::add);
  Program p = parse_text(with_inputs("O[] = +(V[i] == V[j] ? A[i, j]);"));
  const Body& match = contraction(p).body;  // rule 4.10: else 0
  const Node& select = match[match.results[0]];
  ASSERT_EQ(select.op, Op::select);
  EXPECT_EQ(match[select.args[0]].op, Op::eq);
  EXPECT_EQ(match[select.args[2]].kind, NodeKind::integer);
  EXPECT_EQ(match[select.args[2]].integer, 0);
}

TEST(TileGrammar, OnlyTheClassicConditionalMayLackItsElsePart) {
  EXPECT_THAT(error_of(with_inputs("O[] = +(V[i] < V[j] ? A[i, j]);")), HasSubstr("':'"));
  EXPECT_THAT(error_of(with_inputs("O[] = +(V[i] == 1 ? V[i]);")), HasSubstr("':'"));
  EXPECT_THAT(error_of(with_inputs("O = T ? V;")), HasSubstr("':'"));
  EXPECT_FALSE(failure_of(with_inputs("O[] = +(V[i] < 1 ? V[i] : i);")));
}

TEST(TileGrammar, Rule4_9_BodyIsAnyScalarExpression) {
  Program p = parse_text(with_inputs("O[i: N] = +(exp(A[i, j] - V[i]) * (j + N) / S[]);"));
  const SymbolicContraction& c = contraction(p);
  EXPECT_EQ(c.accesses.size(), 3u);
  int sizes = 0, indices = 0;
  for (const Node& n : c.body.nodes) {
    sizes += n.kind == NodeKind::size;
    indices += n.kind == NodeKind::index && n.slot == 1;
  }
  EXPECT_EQ(sizes, 1);
  EXPECT_EQ(indices, 1);
  EXPECT_THAT(error_of(with_inputs("O[i: N] = +(V[i] * T);")),
              AllOf(HasSubstr("'T'"), HasSubstr("T[i, j]")));
  EXPECT_THAT(error_of(with_inputs("O[i: N] = +(V[i] * S);")), HasSubstr("S[]"));
  EXPECT_THAT(error_of(with_inputs("O[i: N] = +(gather(V, T) + V[i]);")), HasSubstr("'gather'"));
}

TEST(TileGrammar, Attributes) {
  Program p = parse_text("function (A) -> (O) { [[pid(N, i)]] [[hot]] O = A; }");
  ASSERT_EQ(p.statements[0].attributes.size(), 2u);
  EXPECT_EQ(p.statements[0].attributes[0].arguments, (std::vector<std::string>{"N", "i"}));
  EXPECT_THAT(print(p), HasSubstr("[[pid(N, i)]] [[hot]] O = A;"));
  EXPECT_TRUE(failure_of("function (A) -> (O) { [ [hot]] O = A; }"));
}

TEST(TileGrammar, PrecedenceIsThatOfC) {
  EXPECT_EQ(normal("A + (B * C)"), "A + B * C");
  EXPECT_EQ(normal("(A + B) * C"), "(A + B) * C");
  EXPECT_EQ(normal("A - (B - C)"), "A - (B - C)");
  EXPECT_EQ(normal("(A - B) - C"), "A - B - C");
  EXPECT_EQ(normal("A || (B && (C | (D ^ (A & (B == (C < (D << (A + B))))))))"),
            "A || B && C | D ^ A & B == C < D << A + B");
  EXPECT_EQ(normal("((A || B) && C)"), "(A || B) && C");
  EXPECT_EQ(normal("A & B == C"), "A & B == C");
  EXPECT_EQ(normal("(A & B) == C"), "(A & B) == C");
  EXPECT_EQ(normal("A % B / C"), "A % B / C");
  EXPECT_EQ(normal("A ? B : (C ? D : A)"), "A ? B : C ? D : A");
  EXPECT_EQ(normal("(A ? B : C) ? D : A"), "(A ? B : C) ? D : A");
  EXPECT_EQ(normal("A ? (B ? C : D) : A"), "A ? B ? C : D : A");
  EXPECT_EQ(normal("-A * !B"), "-A * !B");
  EXPECT_EQ(normal("-(A * B)"), "-(A * B)");
  EXPECT_EQ(normal("~-A"), "~-A");
  EXPECT_EQ(normal("A < B != C >= D"), "A < B != C >= D");
}

TEST(TileGrammar, MinusBeforeANumberIsPartOfIt) {
  EXPECT_EQ(normal("A - -1"), "A - -1");
  EXPECT_EQ(normal("-2.5 * A"), "-2.5 * A");
  EXPECT_EQ(normal("neg(1)"), "neg(1)");
  EXPECT_EQ(normal("--A"), "- -A");
  EXPECT_EQ(normal("!-1"), "!-1");
}

TEST(TileGrammar, Rule2_1_Scalars) {
  Program p = parse_text("function (A[]) -> (O) { O[] = +(A[] * 2); }");
  EXPECT_TRUE(contraction(p).out_index.empty());
  EXPECT_TRUE(p.tensors[0].ranked);
  EXPECT_TRUE(p.tensors[0].dims.empty());
  EXPECT_THAT(error_of("function (A[N]) -> (O) { O[i] = +(A[i]); }"), HasSubstr("sizes"));
}

TEST(TileGrammar, Rule2_2_InputsWithAndWithoutDimensions) {
  Program p = parse_text("function (A, B[N, N], C[3, K]) -> (O) { O = A + B; }");
  EXPECT_FALSE(p.tensors[0].ranked);
  EXPECT_EQ(p.tensors[1].dims.size(), 2u);
  EXPECT_TRUE(p.tensors[2].dims[0].is_constant(3));
  EXPECT_TRUE(failure_of("function (A[N + 1]) -> (O) { O = A; }"));
  EXPECT_TRUE(failure_of("function (A[N,]) -> (O) { O = A; }"));
}

TEST(TileGrammar, Rule2_3_SingleAssignmentNamesBothPlaces) {
  std::string again = error_of("function (A) -> (O) {\n O = A;\n O = A + 1;\n}");
  EXPECT_THAT(again, AllOf(HasSubstr("3:2"), HasSubstr("'O'"), HasSubstr("line 2, column 2")));
  std::string input = error_of("function (A) -> (O) { O = A;\n A = O; }");
  EXPECT_THAT(input, AllOf(HasSubstr("'A'"), HasSubstr("input"), HasSubstr("line 1, column 11")));
  EXPECT_THAT(error_of("function (A, A) -> (O) { O = A; }"), HasSubstr("twice"));
}

TEST(TileGrammar, Rule2_3_UseBeforeDefinition) {
  std::string later = error_of("function (A) -> (O) {\n O = B;\n B = A;\n}");
  EXPECT_THAT(later, AllOf(HasSubstr("2:6"), HasSubstr("'B'"), HasSubstr("line 3, column 2")));
  EXPECT_THAT(error_of("function (A) -> (O) { O = O + A; }"), HasSubstr("before it is assigned"));
  EXPECT_THAT(error_of("function (Input) -> (O) { O = Inptu; }"),
              AllOf(HasSubstr("undefined tensor 'Inptu'"), HasSubstr("'Input'?")));
  EXPECT_TRUE(failure_of("function (A[N]) -> (O) { O[i: N] = +(A[i]) default P; }"));
}

TEST(TileGrammar, Rule2_3_OutputsAreAssigned) {
  EXPECT_THAT(error_of("function (A) -> (O, Q) { O = A; }"),
              AllOf(HasSubstr("'Q'"), HasSubstr("never assigned")));
  EXPECT_THAT(error_of("function (A) -> (A) { B = A; }"), HasSubstr("never assigned"));
  EXPECT_THAT(error_of("function (A[N]) -> (N) { B = A; }"), HasSubstr("dimension"));
}

TEST(TileGrammar, Rule2_3_DimensionsAreDeclared) {
  EXPECT_THAT(error_of("function (A[N]) -> (O) { O[i: Q] = +(A[i]); }"),
              AllOf(HasSubstr("undeclared dimension 'Q'")));
  EXPECT_THAT(error_of("function (A[N]) -> (O) { O[i: A] = +(A[i]); }"), HasSubstr("'A'"));
  EXPECT_THAT(error_of("function (A[N]) -> (O) { O[i: N] = +(A[i + K]); }"), HasSubstr("'K'"));
}

TEST(TileGrammar, Rule2_3_OneNameIsNotBothTensorAndDimension) {
  EXPECT_THAT(error_of("function (N[N]) -> (O) { O = N; }"), HasSubstr("'N'"));
  EXPECT_THAT(error_of("function (A[N],\n N) -> (O) { O = A; }"),
              AllOf(HasSubstr("'N'"), HasSubstr("line 1, column 13")));
  EXPECT_THAT(error_of("function (N, A[N]) -> (O) { O = A; }"), HasSubstr("line 1, column 11"));
  EXPECT_THAT(error_of("function (A[N]) -> (N) { N = A; }"), HasSubstr("dimension"));
}

TEST(TileGrammar, Rule2_3_UnusedInputsAndTensorsAreAllowed) {
  Program p = parse_text("function (A, B[N]) -> (O) { O = A; Unused = A + 1; }");
  EXPECT_EQ(p.statements.size(), 2u);
}

TEST(TileGrammar, Rule2_4_DeclaredRanksAreChecked) {
  EXPECT_EQ(failure_of(with_inputs("O[i: N] = +(A[i]);"))->code, "rank");
  EXPECT_EQ(failure_of(with_inputs("O[i: N] = +(S[i]);"))->code, "rank");
  EXPECT_EQ(failure_of(with_inputs("O[i, j: N] = +(A[i, j]);"))->code, "rank");
  EXPECT_EQ(failure_of(with_inputs("O[: N] = +(V[j]);"))->code, "rank");
  EXPECT_EQ(failure_of(with_inputs("R[i: N] = +(V[i]); O[] = +(R[i, j]);"))->code, "rank");
  // Ranks that the text does not declare are left to bind.
  EXPECT_FALSE(failure_of(with_inputs("O[] = +(T[i, j, k]);")));
  EXPECT_FALSE(failure_of(with_inputs("R = V + T; O[] = +(R[i, j]);")));
}

TEST(TileGrammar, SyntaxErrorsSayWhatIsMissing) {
  EXPECT_THAT(error_of("function (A) -> (O) { O = A }"), HasSubstr("';'"));
  EXPECT_THAT(error_of("function (A) (O) { O = A; }"), HasSubstr("'->'"));
  EXPECT_THAT(error_of("function (A) -> () { O = A; }"), HasSubstr("output name"));
  EXPECT_THAT(error_of("function (A) -> (O) { O = (A; }"), HasSubstr("')'"));
  EXPECT_THAT(error_of("function (A) -> (O) { O = A; "), HasSubstr("end of the text"));
  EXPECT_THAT(error_of("function (A) -> (O) { O = A; } x"), HasSubstr("end of the text"));
  EXPECT_THAT(error_of(""), HasSubstr("'function'"));
  EXPECT_THAT(error_of(with_inputs("O[i: N] = +(V[i]), i > 2;")), HasSubstr("'<'"));
  EXPECT_THAT(error_of(with_inputs("O = V[i];")), HasSubstr("contraction"));
}

}  // namespace
}  // namespace tile::test
