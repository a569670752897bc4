// core/language/tile/REFERENCE.md sections 5.3, 5.6, 6.2 and 6.4, what the text decides:
// operations, casts, whole-tensor functions, nesting, and the expressions of the operation table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/support/tile_text.h"

namespace tile::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string statements(const std::string& text) {
  std::string out = print(parse_text("function (A, B, C, X[N, M]) -> (O) { " + text + " }"));
  size_t begin = out.find("{\n") + 2;
  return out.substr(begin, out.rfind('}') - begin);
}
std::string error(const std::string& text) {
  return error_of("function (A, B, C, X[N, M]) -> (O) { " + text + " }");
}
Node result_node(const std::string& expression) {
  Program p = parse_text("function (A, B, C, X[N, M]) -> (O) { O = " + expression + "; }");
  const Body& body = std::get<Elementwise>(p.statements.back().what).body;
  return body[body.results[0]];
}

TEST(TileFunctions, Rule6_2_EveryFunctionOfTheTable) {
  for (const OpInfo& row : operations()) {
    if (find_function(row.spelling) != row.op) continue;
    std::string args;
    for (int i = 0; i < row.arity; ++i) args += (i == 0 ? "" : ", ") + std::string(1, "ABC"[i]);
    Node node = result_node(std::string(row.spelling) + "(" + args + ")");
    EXPECT_EQ(node.op, row.op) << row.name;
    EXPECT_EQ(node.args.size(), static_cast<size_t>(row.arity)) << row.name;
  }
}

TEST(TileFunctions, Rule6_2_Names) {
  for (const char* name :
       {"abs",      "acos",       "acosh",  "asin",  "asinh", "atan",    "atanh", "ceil", "cos",
        "cosh",     "erf",        "exp",    "expm1", "floor", "gelu",    "ident", "log",  "log1p",
        "neg",      "reciprocal", "relu",   "round", "rsqrt", "sigmoid", "sign",  "sin",  "sinh",
        "softplus", "sqrt",       "square", "tan",   "tanh",  "isnan",   "isinf"}) {
    EXPECT_FALSE(failure_of("function (A) -> (O) { O = " + std::string(name) + "(A); }")) << name;
  }
  for (const char* name : {"atan2", "max", "min", "mod", "pow"}) {
    EXPECT_FALSE(failure_of("function (A) -> (O) { O = " + std::string(name) + "(A, A); }"))
        << name;
  }
}

TEST(TileFunctions, Rule6_2_SpellingsOfPlaidML) {
  EXPECT_EQ(statements("O = cond(A, B, C);"), "  O = A ? B : C;\n");
  EXPECT_EQ(statements("O = select(A, B, C);"), "  O = A ? B : C;\n");
  EXPECT_EQ(statements("O = cmp_le(A, B);"), "  O = A <= B;\n");
  EXPECT_EQ(statements("O = bit_xor(A, bit_not(B));"), "  O = A ^ ~B;\n");
  EXPECT_EQ(statements("O = bit_left(A, 2);"), "  O = A << 2;\n");
  EXPECT_EQ(statements("O = builtin_binary_crossentropy(A, B, N * M);"),
            "  O = -B * log(A) - (1 - B) * log(1 - A);\n");
}

TEST(TileFunctions, Rule6_2_Softmax) {
  EXPECT_EQ(statements("O = builtin_softmax(X, N, M);"),
            "  O_1[i0, 0: N, 1] = >(X[i0, j]);\n"
            "  O_2 = exp(X - O_1);\n"
            "  O_3[i0, 0: N, 1] = +(O_2[i0, j]);\n"
            "  O = O_2 / O_3;\n");
  EXPECT_THAT(statements("O = 2 * builtin_logsoftmax(X);"),
              AllOf(HasSubstr("[i0, 0: X.0, 1] = >(X[i0, j]);"), HasSubstr("log(")));
  EXPECT_THAT(error("O = builtin_softmax(A);"), HasSubstr("declared rank"));
  EXPECT_THAT(error("O = builtin_softmax(A + X);"), HasSubstr("declared rank"));
  EXPECT_THAT(error("O = builtin_softmax(X, N);"), HasSubstr("takes 3"));
}

// A rank that follows from declared ones need not be declared.
TEST(TileFunctions, Rule6_2_SoftmaxOfExpressions) {
  EXPECT_THAT(statements("T = X * 2.0; O = builtin_softmax(T);"),
              HasSubstr("[i0, 0: T.0, 1] = >(T[i0, j]);"));
  EXPECT_THAT(statements("S[i, j, k: N, N, M] = +(X[i, k] * X[j, k]); O = builtin_softmax(S / M);"),
              HasSubstr("[i0, i1, 0: O_1.0, O_1.1, 1] = >(O_1[i0, i1, j]);"));
  EXPECT_THAT(statements("O = builtin_softmax(reshape(A, N, M));"),
              HasSubstr("[i0, 0: O_1.0, 1] = >(O_1[i0, j]);"));
  EXPECT_THAT(statements("O = builtin_softmax(transpose(X, 1, 0));"), HasSubstr(" = >("));
}

TEST(TileFunctions, Rule5_6_Casts) {
  EXPECT_EQ(result_node("as_float(A, 16)").type, DType::f16);
  EXPECT_EQ(result_node("as_float(A, 64)").type, DType::f64);
  EXPECT_EQ(result_node("as_bf16(A)").type, DType::bf16);
  EXPECT_EQ(result_node("as_int(A, 8)").type, DType::i8);
  EXPECT_EQ(result_node("as_uint(A, 32)").type, DType::u32);
  EXPECT_EQ(result_node("as_bool(A)").type, DType::bool_);
  EXPECT_EQ(result_node("as_bool(A)").op, Op::cast);
  EXPECT_THAT(error("O = as_float(A, 8);"), HasSubstr("16, 32 or 64"));
  EXPECT_THAT(error("O = as_int(A, 12);"), HasSubstr("8, 16, 32 or 64"));
  EXPECT_THAT(error("O = as_int(A, N);"), HasSubstr("'N'"));
  EXPECT_THAT(error("O = as_int(A);"), HasSubstr("takes 2 arguments"));
  EXPECT_THAT(error("O = as_bool(A, 8);"), HasSubstr("takes 1 argument"));
}

TEST(TileFunctions, Rule5_3_NumbersAndDimensionsAreWeak) {
  Program p = parse_text("function (X[N]) -> (O) { O = N * 2 + 0.5; }");
  const auto& e = std::get<Elementwise>(p.statements[0].what);
  EXPECT_TRUE(e.operands.empty());
  for (const Node& n : e.body.nodes) EXPECT_EQ(n.type, DType::none);
  EXPECT_EQ(e.body.nodes[0].kind, NodeKind::size);
  EXPECT_EQ(e.body.nodes[0].expr.name(), "N");
}

TEST(TileFunctions, Rule6_4_WholeTensorFunctions) {
  for (const char* call :
       {"shape(A)", "index(A, 1)", "reshape(A, N, M * 2)", "reshape(A)", "gather(A, B)",
        "scatter(A, B, N)", "transpose(A, 1, 0)", "concat(0, A, B, C)", "slice(A, 0, 1, N, 2)",
        "argmax(A, 1)", "argmin(A, -1)", "sort(A, 0)", "argsort(A, 0)", "cumsum(A, 0)",
        "prng_uniform(A, N, 3)", "sum_to(A, B)"}) {
    std::string text = std::string("O = ") + call + ";";
    ASSERT_EQ(error(text), "") << call;
    std::string printed = statements(text);
    EXPECT_EQ(statements(printed), printed);
    Program p = parse_text("function (A, B, C, X[N, M]) -> (O) { " + text + " }");
    ASSERT_EQ(p.statements.size(), 1u);
    const auto& c = std::get<Call>(p.statements[0].what);
    EXPECT_EQ(c.spans.size(), c.tensors.size() + c.sizes.size());
  }
}

TEST(TileFunctions, Rule6_4_ConcatWritesItsAxisFirst) {
  Program p = parse_text("function (A, B) -> (O) { O = concat(1, A, B); }");
  const auto& c = std::get<Call>(p.statements[0].what);
  EXPECT_EQ(c.tensors, (std::vector<TensorId>{TensorId(0), TensorId(1)}));
  EXPECT_TRUE(c.sizes.at(0).is_constant(1));
  EXPECT_THAT(print(p), HasSubstr("concat(1, A, B)"));
}

TEST(TileFunctions, Rule8_1_ArityAndUnknownFunctions) {
  EXPECT_THAT(error("O = exp(A, B);"), HasSubstr("'exp' takes 1 argument, not 2"));
  EXPECT_THAT(error("O = max(A);"), HasSubstr("takes 2 arguments, not 1"));
  EXPECT_THAT(error("O = slice(A, 0);"), HasSubstr("takes 5"));
  EXPECT_THAT(error("O = gather(A);"), HasSubstr("takes 2"));
  EXPECT_THAT(error("O = sigmiod(A);"),
              AllOf(HasSubstr("unknown function 'sigmiod'"), HasSubstr("'sigmoid'?")));
  EXPECT_THAT(error("O = Foo(A);"), HasSubstr("unknown function 'Foo'"));
  EXPECT_THAT(error("O = cast(A);"), HasSubstr("unknown function"));
  EXPECT_THAT(error("O = where(A, A, A);"), HasSubstr("condition ? value : other"));
  EXPECT_THAT(error("O = matmul(A, A);"), HasSubstr("+(A[i, k] * B[k, j])"));
  EXPECT_THAT(error("O = softmax(A);"), HasSubstr(">(X[i, j])"));
  EXPECT_THAT(error("O = reshape(A, 2.5);"), HasSubstr("'2.5'"));
}

TEST(TileFunctions, NestedWholeTensorOperationsBecomeStatements) {
  EXPECT_EQ(statements("O_2 = A; O = exp(gather(A + 1, sort(B, 0))) - O_2;"),
            "  O_2 = A;\n"
            "  O_1 = A + 1;\n"
            "  O_3 = sort(B, 0);\n"
            "  O_4 = gather(O_1, O_3);\n"
            "  O = exp(O_4) - O_2;\n");
  EXPECT_EQ(statements("O = prng_uniform(42, N);"), "  O_1 = 42;\n  O = prng_uniform(O_1, N);\n");
  EXPECT_THAT(statements("[[hot]] O = shape(A) * 2;"), HasSubstr("[[hot]] O = O_1 * 2;"));
}

TEST(TileFunctions, EqualPartsOfAnExpressionAreOneNode) {
  Program p = parse_text("function (A) -> (O) { O = exp(A) * exp(A) + A; }");
  EXPECT_EQ(std::get<Elementwise>(p.statements[0].what).body.nodes.size(), 4u);
}

TEST(TileFunctions, DerivativesOfTheTableParse) {
  constexpr std::array<std::string_view, 4> kOperands = {"X", "Y", "Z", "R"};
  int parsed = 0;
  for (const OpInfo& row : operations()) {
    for (std::string_view text : row.derivatives) {
      if (text.empty()) continue;
      Body body = parse_scalar_expression(text, kOperands);
      ASSERT_EQ(body.results.size(), 1u) << row.name;
      for (const Node& n : body.nodes) {
        EXPECT_TRUE(n.kind != NodeKind::load || n.slot < 4) << row.name;
      }
      ++parsed;
    }
  }
  EXPECT_GT(parsed, 40);
  Body body = parse_scalar_expression("-R / Y", kOperands);
  EXPECT_EQ(body[body.results[0]].op, Op::div);
  EXPECT_EQ(body.nodes[0].slot, 3);
  EXPECT_THROW(parse_scalar_expression("W", kOperands), Failure);
  EXPECT_THROW(parse_scalar_expression("X +", kOperands), Failure);
  EXPECT_THROW(parse_scalar_expression("X[i]", kOperands), Failure);
  EXPECT_THROW(parse_scalar_expression("gather(X, Y)", kOperands), Failure);
}

}  // namespace
}  // namespace tile::test
