// core/language/tile/REFERENCE.md rule 2.6: names for the values of one body.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/autodiff/derivation/adjoint_body.h"
#include "tests/support/tile_text.h"

namespace tile::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

void expect_same(const std::string& named, const std::string& written_out) {
  EXPECT_EQ(dump(parse_text(with_inputs(named))), dump(parse_text(with_inputs(written_out))));
}

TEST(TileBindings, Rule2_6_NamesStandForTheirValues) {
  expect_same("O = let v = exp(T), w = v + S in v * w;", "O = exp(T) * (exp(T) + S);");
  expect_same("O[i: N] = +(let v = V[i] + V[j] in v * v), j < 3;",
              "O[i: N] = +((V[i] + V[j]) * (V[i] + V[j])), j < 3;");
  expect_same("O = let v = T ? S : 1.0 in v;", "O = T ? S : 1.0;");
  expect_same("O = let v = T ? S : 1.0 in v * 2;", "O = (T ? S : 1.0) * 2;");
  expect_same("O = let v = transpose(T, 1, 0) in v * S;", "O = transpose(T, 1, 0) * S;");
  expect_same("O[] = +(let v = V[i] in v == V[j] ? A[i, j] : 0);",
              "O[] = +(V[i] == V[j] ? A[i, j] : 0);");
}

TEST(TileBindings, Rule2_6_ANameHidesAnIndexFromThereOn) {
  expect_same("O[i: N] = +(let i = V[i] * 2 in i + i);", "O[i: N] = +(V[i] * 2 + V[i] * 2);");
  EXPECT_THAT(error_of(with_inputs("O[i: N] = +(let j = V[i] in V[j]);")), HasSubstr("'j'"));
}

TEST(TileBindings, Rule2_6_TheWordsAreNamesElsewhere) {
  EXPECT_EQ(error_of(with_inputs("O[let, in: N, M] = +(A[let, in] * let);")), "");
  EXPECT_EQ(error_of(with_inputs("O[i: N] = +(let in = V[i] in in);")), "");
}

TEST(TileBindings, Rule2_6_Errors) {
  EXPECT_THAT(error_of(with_inputs("O = let v = T in S;")), HasSubstr("'v' is never used"));
  EXPECT_THAT(error_of(with_inputs("O = let v = T, v = S in v;")), HasSubstr("a value already"));
  EXPECT_THAT(error_of(with_inputs("O = let v = T; v;")), HasSubstr("'in'"));
  EXPECT_THAT(error_of(with_inputs("O = let V1 = T in V1;")), HasSubstr("test.tile"));
  EXPECT_THAT(error_of(with_inputs("O = let v = w, w = T in v * w;")),
              AllOf(HasSubstr("'w'"), HasSubstr("name")));
  EXPECT_THAT(error_of(with_inputs("O = let v = v in v;")), HasSubstr("'v'"));
  EXPECT_THAT(error_of(with_inputs("O = let v = T in v; P = v;")), HasSubstr("'v'"));
  EXPECT_THAT(error_of(with_inputs("O = let v = exp(T) in reshape(v, 2);")),
              HasSubstr("a function on whole tensors"));
}

// A chain of any length: neither the parser nor elaboration recurses along it.
TEST(TileBindings, Rule2_6_LongChains) {
  std::string text = "O = let v0 = T";
  for (int i = 0; i < 20'000; ++i) {
    std::string last = "v" + std::to_string(i);
    text += ", v" + std::to_string(i + 1) + " = " + last + " * " + last;
  }
  Program p = parse_text(with_inputs(text + " in v20000;"));
  EXPECT_EQ(std::get<Elementwise>(p.statements[0].what).body.nodes.size(), 20'001u);
}

// Products are distributed over the arms of selects, once where arms are shared.
TEST(TileBindings, DerivativesOfSharedSelectsGrowAsTheirBodies) {
  auto nodes_of = [](int levels) {
    std::string text = "O = let v0 = S", last = "v0";
    for (int i = 1; i <= levels; ++i) {
      std::string name = "v" + std::to_string(i), at = std::to_string(i);
      text += ", " + name + " = T > " + at + " ? (S > " + at + " ? " + last + " : 1.0) : (S < -" +
              at + " ? " + last + " : 2.0)";
      last = name;
    }
    Program p = parse_text(with_inputs(text + " in T * " + last + ";"));
    const auto& e = std::get<Elementwise>(p.statements[0].what);
    AdjointBody adjoint(e.body);
    int of_t = e.operands[0] == *p.find("T") ? 0 : 1;
    NodeId seed = adjoint.body.real(1);
    EXPECT_TRUE(adjoint.derivative(of_t, adjoint.times(seed, adjoint.body.load(0))).valid());
    return adjoint.body.nodes.size();
  };
  EXPECT_LT(nodes_of(12), 3 * nodes_of(6));
}

}  // namespace
}  // namespace tile::test
