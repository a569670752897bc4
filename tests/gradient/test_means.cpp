// Rule 7.1a: the distances from a mean add up to zero, so that a norm's gradient has two sums.
#include <gmock/gmock.h>

#include "core/autodiff/differentiate.h"
#include "tests/gradient/central_difference.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

Program parse_text(const std::string& text) {
  return parse_tile(std::make_shared<const Source>(Source{"means.tile", text}));
}

const GradientOptions kWithMeans{{"means"}};

// The tensors that `name` is made of, itself included.
std::set<std::string> made_of(const Program& program, const std::string& name) {
  std::set<std::string> names = {name};
  for (size_t i = program.statements.size(); i-- > 0;) {
    const Statement& s = program.statements[i];
    auto named = [&](TensorId id) { return program.tensors[id].name; };
    if (!names.contains(named(s.result))) continue;
    if (const auto* c = std::get_if<SymbolicContraction>(&s.what)) {
      for (const SymbolicAccess& a : c->accesses) names.insert(named(a.tensor));
    } else if (const auto* e = std::get_if<Elementwise>(&s.what)) {
      for (TensorId id : e->operands) names.insert(named(id));
    } else if (const auto* call = std::get_if<Call>(&s.what)) {
      for (TensorId id : call->tensors) names.insert(named(id));
    }
  }
  return names;
}

// A norm of X by a mean and a variance: whether the mean's adjoint waits for the variance's.
struct Norm {
  const char* name;
  std::string text;
  std::vector<Shape> shapes;
  std::string mean, variance;
  bool waits = false;
};

const std::vector<Norm> kNorms = {
    {"layer norm",
     "function (X[M, N], G[N], B[N]) -> (O) { Sum[m, 0: M, 1] = +(X[m, n]); D = X - Sum / N;"
     "S = D * D; Var[m, 0: M, 1] = +(S[m, n]); O = D * rsqrt(Var / N + 0.00001) * G + B; }",
     {{3, 5}, {5}, {5}},
     "Sum",
     "Var"},
    {"layer norm in contractions",
     "function (X[M, N]) -> (O) { S[m: M] = +(X[m, n]); Mean = S / N;"
     "D[m, n: M, N] = =(X[m, n] - Mean[m]); Var[m: M] = +(D[m, n] * D[m, n]);"
     "O[m, n: M, N] = =(D[m, n] / sqrt(Var[m] / N + 0.01)); }",
     {{3, 5}},
     "Mean",
     "Var"},
    {"a mean of quotients",
     "function (X[M, N]) -> (O) { Mean[m, 0: M, 1] = +(X[m, n] / N); D = X - Mean;"
     "Var[m, 0: M, 1] = +(square(D[m, n])); O = D * rsqrt(Var + 0.01); }",
     {{3, 5}},
     "Mean",
     "Var"},
    {"by a reciprocal of the size",
     "function (X[M, N]) -> (O) { S[m, 0: M, 1] = +(X[m, n]); Mean = S * (1.0 / N); D = X - Mean;"
     "Var[m, 0: M, 1] = +(D[m, n] * D[m, n]); O = D * rsqrt(Var + 0.01); }",
     {{3, 5}},
     "Mean",
     "Var"},
    {"batch norm",
     "function (X[B, H, W, C], G[C]) -> (O) { S[c: C] = +(X[b, h, w, c]); Mean = S / (B * H * W);"
     "D = X - Mean; Q[c: C] = +(D[b, h, w, c] * D[b, h, w, c]);"
     "O = D * rsqrt(Q / (B * H * W) + 0.00001) * G; }",
     {{2, 2, 3, 2}, {2}},
     "Mean",
     "Q"},
    {"group norm",
     "function (X[B, G, K, P]) -> (O) { S[b, g, 0, 0: B, G, 1, 1] = +(X[b, g, k, p]);"
     "D = X - S / (K * P); Q[b, g, 0, 0: B, G, 1, 1] = +(square(D[b, g, k, p]));"
     "O = D / sqrt(Q / (K * P) + 0.001); }",
     {{2, 2, 2, 3}},
     "S",
     "Q"},
    {"a number that is the size",
     "function (X[M, 4]) -> (O) { S[m, 0: M, 1] = +(X[m, n]); D = X - S / 4.0;"
     "Q[m, 0: M, 1] = +(D[m, n] * D[m, n]); O = D * rsqrt(Q + 0.01); }",
     {{3, 4}},
     "S",
     "Q"},
    // No means of what is summed.
    {"a number that is not the size",
     "function (X[M, 4]) -> (O) { S[m, 0: M, 1] = +(X[m, n]); D = X - S / 3.0;"
     "Q[m, 0: M, 1] = +(D[m, n] * D[m, n]); O = D * rsqrt(Q + 0.01); }",
     {{3, 4}},
     "S",
     "Q",
     true},
    {"another tensor's mean",
     "function (X[M, N], Y[M, N]) -> (O) { S[m, 0: M, 1] = +(Y[m, n]); D = X - S / N;"
     "Q[m, 0: M, 1] = +(D[m, n] * D[m, n]); O = D * rsqrt(Q + 0.01); }",
     {{3, 4}, {3, 4}},
     "S",
     "Q",
     true},
    {"the mean of a part",
     "function (X[M, N]) -> (O) { S[m, 0: M, 1] = +(X[m, n]), n < N - 1; D = X - S / N;"
     "Q[m, 0: M, 1] = +(D[m, n] * D[m, n]); O = D * rsqrt(Q + 0.01); }",
     {{3, 4}},
     "S",
     "Q",
     true},
    {"the mean of columns, subtracted from rows",
     "function (X[M, M]) -> (O) { S[n, 0: M, 1] = +(X[m, n]); D = X - S / M;"
     "Q[m, 0: M, 1] = +(D[m, n] * D[m, n]); O = D * rsqrt(Q + 0.01); }",
     {{4, 4}},
     "S",
     "Q",
     true},
    {"weighted distances",
     "function (X[M, N], W[N]) -> (O) { S[m, 0: M, 1] = +(X[m, n]); D = X - S / N;"
     "E = D * D * W; Q[m, 0: M, 1] = +(E[m, n]); O = D * rsqrt(Q + 0.01); }",
     {{3, 4}, {4}},
     "S",
     "Q",
     true},
    {"third powers",
     "function (X[M, N]) -> (O) { S[m, 0: M, 1] = +(X[m, n]); D = X - S / N; E = D * D * D;"
     "Q[m, 0: M, 1] = +(E[m, n]); O = D * exp(0.1 * Q); }",
     {{3, 4}},
     "S",
     "Q",
     true},
};

std::vector<std::string> input_names(const Program& program) {
  std::vector<std::string> names;
  for (TensorId id : program.inputs) {
    names.push_back(program.tensors[id].name);
  }
  return names;
}

TEST(Means, Rule7_1aTheMeanDoesNotWaitForTheVariance) {
  for (const Norm& n : kNorms) {
    Program program = parse_text(n.text);
    std::vector<std::string> wrt = input_names(program);
    Program derived = differentiate(program, "O", wrt);
    Program whole = differentiate(program, "O", wrt, {}, kWithMeans);
    std::string mean = "D" + n.mean, variance = "D" + n.variance;
    EXPECT_EQ(made_of(derived, mean).contains(variance), n.waits) << n.name << print(derived);
    EXPECT_TRUE(made_of(whole, mean).contains(variance)) << n.name << print(whole);
  }
}

TEST(Means, Rule7_1aGradientsStayWhatTheyAre) {
  for (const Norm& n : kNorms) {
    Program program = parse_text(n.text);
    std::vector<std::string> wrt = input_names(program);
    RandomSource random(11);
    std::vector<HostTensor> inputs;
    for (const Shape& shape : n.shapes) inputs.push_back(random_reals(random, shape));
    std::string report;
    EXPECT_EQ(compare_with_differences({program, "O", wrt, inputs}, random, report),
              Agreement::agrees)
        << n.name << ": " << report;
    inputs.push_back(random_reals(random, outputs_of(program, inputs).back().shape));
    std::vector<HostTensor> a = outputs_of(differentiate(program, "O", wrt), inputs);
    std::vector<HostTensor> b =
        outputs_of(differentiate(program, "O", wrt, {}, kWithMeans), inputs);
    for (size_t k = 0; k < a.size(); ++k) {
      EXPECT_THAT(values_of(a[k]), testing::Pointwise(testing::DoubleNear(1e-12), values_of(b[k])))
          << n.name;
    }
  }
}

}  // namespace
}  // namespace tile::test
