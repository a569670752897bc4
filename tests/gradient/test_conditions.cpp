// Rule 7.2a: the conditions of sums bound the sums that read their adjoints.
#include <gmock/gmock.h>

#include "core/autodiff/differentiate.h"
#include "tests/gradient/central_difference.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

Program parse_text(const std::string& text) {
  return parse_tile(std::make_shared<const Source>(Source{"conditions.tile", text}));
}

const GradientOptions kWithoutConditions{{"conditions"}};

const SymbolicContraction* sum_of(const Program& program, const std::string& name) {
  for (const Statement& s : program.statements) {
    if (program.tensors[s.result].name == name) {
      return std::get_if<SymbolicContraction>(&s.what);
    }
  }
  return nullptr;
}

// How many conditions the contraction that makes a tensor has; -1: it is none.
int conditions(const Program& program, const std::string& name) {
  const SymbolicContraction* c = sum_of(program, name);
  return c == nullptr ? -1 : static_cast<int>(c->constraints.size());
}

struct Masked {
  std::string text;
  std::vector<Shape> shapes;
  std::vector<std::string> wrt;
  std::string bounded;  // the gradient whose sum gets the condition
};

const std::vector<Masked> kMasked = {
    // Multiples of an adjoint, in one statement and in several.
    {"function (Q[S, D], K[T, D]) -> (O) { L[s, t: S, T] = +(Q[s, d] * K[t, d]); E = exp(0.1 * L);"
     "O[s: S] = +(E[s, t]), s - t < S; }",
     {{4, 3}, {4, 3}},
     {"Q", "K"},
     "DK"},
    // Two sums under one condition.
    {"function (Q[S, D], K[T, D]) -> (O) { L[s, t: S, T] = +(Q[s, d] * K[t, d]);"
     "A[s: S] = +(L[s, t]), s - t < S; B[s: S] = +(L[s, t] * L[s, t]), s - t < S; O = A * B; }",
     {{4, 3}, {4, 3}},
     {"Q", "K"},
     "DQ"},
    // A condition in another order of the dimensions.
    {"function (Q[S, D], K[T, D]) -> (O) { L[t, s: T, S] = +(Q[s, d] * K[t, d]);"
     "O[s: S] = +(L[t, s] * L[t, s]), s - t < 2; }",
     {{5, 2}, {5, 2}},
     {"Q", "K"},
     "DQ"},
};

TEST(Conditions, Rule7_2aBoundTheSumsOfAdjoints) {
  for (const Masked& m : kMasked) {
    Program program = parse_text(m.text);
    EXPECT_EQ(conditions(differentiate(program, "O", m.wrt), m.bounded), 1) << m.text;
    EXPECT_EQ(conditions(differentiate(program, "O", m.wrt, {}, kWithoutConditions), m.bounded), 0);
    RandomSource random(7);
    std::vector<HostTensor> inputs;
    for (const Shape& shape : m.shapes) inputs.push_back(random_reals(random, shape));
    std::string report;
    EXPECT_EQ(compare_with_differences({program, "O", m.wrt, inputs}, random, report),
              Agreement::agrees)
        << m.text << report;
  }
}

// A term elsewhere, or a sum under another condition, leaves no condition that all terms share.
TEST(Conditions, Rule7_2aOnlyThoseThatAllTermsShare) {
  for (const char* second : {"B[s: S] = +(L[s, t]);", "B[s: S] = +(L[s, t]), t - s < S;"}) {
    std::string text =
        "function (Q[S, D], K[T, D]) -> (O) { L[s, t: S, T] = +(Q[s, d] * K[t, d]);"
        "A[s: S] = +(L[s, t]), s - t < S;" +
        std::string(second) + "O = A * B; }";
    EXPECT_EQ(conditions(differentiate(parse_text(text), "O", {"Q", "K"}), "DQ"), 0);
  }
}

// A broadcast operand's gradient is a sum under the condition.
TEST(Conditions, Rule7_2aBoundSumsOverBroadcasts) {
  Program program =
      parse_text("function (A[S, T], B[T]) -> (O) { C = A * B; O[s: S] = +(C[s, t]), s - t < S; }");
  Program derived = differentiate(program, "O", {"A", "B"});
  EXPECT_EQ(conditions(derived, "DB"), 1) << print(derived);
  RandomSource random(5);
  std::vector<HostTensor> inputs = {random_reals(random, {3, 4}), random_reals(random, {4})};
  std::string report;
  EXPECT_EQ(compare_with_differences({program, "O", {"A", "B"}, inputs}, random, report),
            Agreement::agrees)
      << report;
}

// What the mask hides may be infinite: zero times it is no term.
TEST(Conditions, Rule7_2aWhatIsMaskedTakesNoPart) {
  Program program = parse_text(
      "function (X[S, T], W[T, D]) -> (O) { L[s, d: S, D] = +(X[s, t] * W[t, d]); E = exp(L);"
      "O[s: S] = +(E[s, d]), s - d < S; }");
  HostTensor x = tensor(DType::f64, {2, 1}, {1, 1}), w = tensor(DType::f64, {1, 2}, {0, 1e4});
  HostTensor seed = tensor(DType::f64, {2}, {1, 0});
  std::vector<HostTensor> inputs = {x, w, seed};
  Values dx = values_of(outputs_of(differentiate(program, "O", {"X"}), inputs).back());
  EXPECT_EQ(dx[0], 0);
  Values whole = values_of(
      outputs_of(differentiate(program, "O", {"X"}, {}, kWithoutConditions), inputs).back());
  EXPECT_TRUE(std::isnan(whole[0]));
}

}  // namespace
}  // namespace tile::test
