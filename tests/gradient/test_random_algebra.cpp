// Gradients of random programs with the rules 7.1a and 7.2a, and without them.
#include <gmock/gmock.h>

#include "core/autodiff/differentiate.h"
#include "tests/gradient/central_difference.h"
#include "tests/random/random_program.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

const GradientOptions kWithoutRules{{"shifts", "conditions", "means"}};

Program parse_text(const std::string& text) {
  return parse_tile(std::make_shared<const Source>(Source{"algebra.tile", text}));
}

// A statistic of the rows of X, values made of both, a statistic of these, and a result.
std::string random_normalisation(RandomSource& random) {
  auto one_of = [&](const std::vector<std::string>& list) { return random.pick(list); };
  std::string mask = random.percent(35) ? ", m - n < M" : "";
  std::string first = one_of({">(X[m, n])", "<(X[m, n])", "+(X[m, n])", ">(abs(X[m, n]))"});
  std::string shift =
      one_of({"X - T", "X - T", "X - T / N", "X / T", "0.5 * (X - T)", "T - X", "(X - T) / C"});
  std::string value = one_of({"exp(D)", "exp(D)", "exp2(D)", "square(D)", "D", "abs(D)",
                              "exp(D) * W", "sqrt(exp(D))", "exp(X) / exp(T)"});
  std::string second = one_of(
      {"+(E[m, n])", "+(E[m, n] * E[m, n])", "+(square(E[m, n]))", ">(E[m, n])", "+(E[m, n] / N)"});
  std::string result = one_of(
      {"O = E / S;", "O = E * reciprocal(S);", "O = E * rsqrt(S + 0.1);", "O = E / (S + 0.5);",
       "O = log(S) + T;", "O = D - log(S);", "O = E / sqrt(S);", "O = square(E) / square(S);",
       "R[m, d: M, K] = +(E[m, n] * V[n, d])" + mask + "; O = R / S;",
       "F = E / S; R[m, 0: M, 1] = +(F[m, n]); O = F / R * W;",
       "A[m: M] = +(E[m, n]* X[m, n])" + mask + "; B[m: M] = +(S[m, 0]); O = A / B;"});
  return "function (X[M, N], W[N], C[], V[N, K]) -> (O) { T[m, 0: M, 1] = " + first + mask +
         "; D = " + shift + "; E = " + value + "; S[m, 0: M, 1] = " + second + mask + "; " +
         result + " }";
}

bool moderate(const std::vector<HostTensor>& values) {
  for (const HostTensor& t : values) {
    for (double v : values_of(t)) {
      if (!(std::abs(v) < 1e4)) return false;
    }
  }
  return true;
}

// The largest distance, relative to the largest element of each.
double distance(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  double largest = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    Values x = values_of(a[k]), y = values_of(b.at(k));
    double scale = 1;
    for (double v : x) scale = std::max(scale, std::abs(v));
    for (size_t i = 0; i < x.size(); ++i) {
      largest = std::max(largest, std::abs(x[i] - y.at(i)) / scale);
    }
  }
  return largest;
}

TEST(RandomAlgebra, NormalisationsHaveTheGradientsThatTheyHaveWithoutRules7_1aAnd7_2a) {
  const std::vector<std::string> wrt = {"X", "W", "C", "V"};
  int compared = 0, shorter = 0;
  for (uint64_t seed : seeds(1, 600)) {
    RandomSource random(seed);
    std::string text = random_normalisation(random);
    Program program = parse_text(text);
    std::vector<HostTensor> inputs = {random_reals(random, {4, 4}), random_reals(random, {4}),
                                      random_reals(random, {}), random_reals(random, {4, 2})};
    inputs.push_back(random_reals(random, outputs_of(program, inputs).back().shape));
    Program with = differentiate(program, "O", wrt);
    Program without = differentiate(program, "O", wrt, {}, kWithoutRules);
    std::vector<HostTensor> expected = outputs_of(without, inputs);
    if (!moderate(expected)) continue;
    EXPECT_LT(distance(expected, outputs_of(with, inputs)), 1e-9) << "seed " << seed << "\n"
                                                                  << print(with);
    ++compared;
    shorter += with.statements.size() < without.statements.size() ? 1 : 0;
    if (HasFailure()) return;
  }
  if (std::getenv("TILE_TEST_SEEDS") != nullptr) return;
  EXPECT_GE(compared, 250);
  EXPECT_GE(shorter, 30);
  RecordProperty("compared", compared);
  RecordProperty("shorter", shorter);
}

}  // namespace
}  // namespace tile::test
