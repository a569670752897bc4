// Rule 7.1a: what cancels in every gradient is not computed.
#include <gmock/gmock.h>

#include "core/autodiff/differentiate.h"
#include "tests/gradient/central_difference.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

Program parse_text(const std::string& text) {
  return parse_tile(std::make_shared<const Source>(Source{"shift.tile", text}));
}

// A program of f64 inputs whose output is O. `shifts`: the tensors without a gradient.
struct Normalisation {
  const char* name;
  std::string text;
  std::vector<Shape> shapes;  // of all inputs; the gradient is with respect to all
  std::vector<std::string> shifts;
};

const GradientOptions kWithShifts{{"shifts"}};

std::vector<std::string> input_names(const Program& program) {
  std::vector<std::string> names;
  for (TensorId id : program.inputs) {
    names.push_back(program.tensors[id].name);
  }
  return names;
}

// Whether any statement computes an adjoint of the tensor.
bool has_adjoint(const Program& derived, const std::string& tensor) {
  return std::any_of(derived.tensors.begin(), derived.tensors.end(), [&](const Tensor& t) {
    return t.name == "D" + tensor || t.name.starts_with("D" + tensor + "_");
  });
}

std::vector<HostTensor> drawn(const std::vector<Shape>& shapes, RandomSource& random) {
  std::vector<HostTensor> inputs;
  for (const Shape& shape : shapes) inputs.push_back(random_reals(random, shape));
  return inputs;
}

double largest_difference(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  double largest = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    Values x = values_of(a[k]), y = values_of(b.at(k));
    for (size_t i = 0; i < x.size(); ++i) {
      double difference = std::abs(x[i] - y.at(i)) / (1 + std::abs(x[i]));
      largest = std::isnan(difference) ? kInf : std::max(largest, difference);
    }
  }
  return largest;
}

// The gradients with and without the terms that cancel, and central differences.
void expect_right(const Normalisation& n, uint64_t seed) {
  RandomSource random(seed);
  Program program = parse_text(n.text);
  std::vector<std::string> wrt = input_names(program);
  std::vector<HostTensor> inputs = drawn(n.shapes, random);
  std::string report;
  EXPECT_EQ(compare_with_differences({program, "O", wrt, inputs}, random, report),
            Agreement::agrees)
      << n.name << ": " << report;
  std::vector<HostTensor> seeded = inputs;
  seeded.push_back(random_reals(random, outputs_of(program, inputs).back().shape));
  EXPECT_LT(
      largest_difference(outputs_of(differentiate(program, "O", wrt, {}, kWithShifts), seeded),
                         outputs_of(differentiate(program, "O", wrt), seeded)),
      1e-12)
      << n.name;
}

std::string rows(const std::string& statements) {
  return "function (X[M, N]) -> (O) { Top[m, 0: M, 1] = >(X[m, n]);" + statements + "}";
}

// One for each way to write a normalisation: none is known by name.
const std::vector<Normalisation> kInvariant = {
    {"softmax by a quotient",
     rows("E = exp(X - Top); S[m, 0: M, 1] = +(E[m, n]); O = E / S;"),
     {{3, 5}},
     {"Top"}},
    {"softmax by a reciprocal",
     rows("E = exp(X - Top); S[m, 0: M, 1] = +(E[m, n]); R = reciprocal(S); O = E * R;"),
     {{3, 5}},
     {"Top"}},
    {"softmax by a power",
     rows("S[m, 0: M, 1] = +(exp(X[m, n] - Top[m, 0]));"
          "O = exp(X - Top) * pow(S, -1.0);"),
     {{3, 5}},
     {"Top"}},
    {"softmax of base two",
     rows("E = exp2(1.4426950408889634 * (X - Top));"
          "S[m, 0: M, 1] = +(E[m, n]); O = E / S;"),
     {{3, 5}},
     {"Top"}},
    {"softmax as exp of its logarithm",
     rows("S[m, 0: M, 1] = +(exp(X[m, n] - Top[m, 0])); L = X - (Top + log(S)); O = exp(L);"),
     {{3, 5}},
     {"Top"}},
    {"softmax by quotients of exponentials",
     rows("E = exp(X) / exp(Top); S[m, 0: M, 1] = +(E[m, n]); O = E / S;"),
     {{3, 5}},
     {"Top"}},
    {"softmax in contractions",
     "function (X[M, N]) -> (O) { Top[m: M] = >(X[m, n]); D[m, n: M, N] = =(X[m, n] - Top[m]);"
     "E[m, n: M, N] = =(exp(D[m, n])); S[m: M] = +(E[m, n]); O[m, n: M, N] = =(E[m, n] / S[m]); }",
     {{3, 5}},
     {"Top"}},
    {"a maximum that is broadcast first",
     "function (X[M, N]) -> (O) { Top[m: M] = >(X[m, n]); B[m, n: M, N] = +(Top[m]), n < N;"
     "E = exp(X - B); S[m, 0: M, 1] = +(E[m, n]); O = E / S; }",
     {{3, 5}},
     {"Top", "B"}},
    {"a maximum that is reshaped",
     "function (X[M, N]) -> (O) { Top[m: M] = >(X[m, n]); B = reshape(Top, M, 1);"
     "E = exp(X - B); S[m, 0: M, 1] = +(E[m, n]); O = E / S; }",
     {{3, 5}},
     {"Top", "B"}},
    {"along the first dimension",
     "function (X[M, N]) -> (O) { Top[n: N] = >(X[m, n]); E = exp(X - Top); S[n: N] = +(E[m, n]);"
     "O = E / S; }",
     {{4, 3}},
     {"Top"}},
    {"of a transposed tensor",
     "function (X[M, N]) -> (O) { Top[n, 0: N, 1] = >(X[m, n]); T = transpose(X, 1, 0);"
     "E = exp(T - Top); S[n, 0: N, 1] = +(E[n, m]); O = transpose(E / S, 1, 0); }",
     {{4, 3}},
     {"Top"}},
    {"over the whole tensor",
     "function (X[M, N]) -> (O) { Top[] = >(X[m, n]); E = exp(X - Top); S[] = +(E[m, n]);"
     "O = E / S; }",
     {{3, 4}},
     {"Top"}},
    {"log-softmax",
     rows("D = X - Top; S[m, 0: M, 1] = +(exp(D[m, n])); O = D - log(S);"),
     {{3, 5}},
     {"Top"}},
    {"log-sum-exp",
     "function (X[M, N]) -> (O) { Top[m: M] = >(X[m, n]); S[m: M] = +(exp(X[m, n] - Top[m]));"
     "O = log(S) + Top; }",
     {{3, 5}},
     {"Top"}},
    {"log-sum-exp of base two",
     "function (X[M, N]) -> (O) { Top[m: M] = >(X[m, n]);"
     "S[m: M] = +(exp2((X[m, n] - Top[m]) * 1.4426950408889634));"
     "O = 0.6931471805599453 * log2(S) + Top; }",
     {{3, 5}},
     {"Top"}},
    {"cross entropy",
     "function (X[M, N], Y[M, N]) -> (O) { Top[m: M] = >(X[m, n]);"
     "S[m: M] = +(exp(X[m, n] - Top[m])); P[m: M] = +(X[m, n] * Y[m, n]);"
     "O[] = +(log(S[m]) + Top[m] - P[m]); }",
     {{3, 5}, {3, 5}},
     {"Top"}},
    {"a temperature that is an input",
     "function (X[M, N], C[M]) -> (O) { Top[m: M] = >(X[m, n]);"
     "E[m, n: M, N] = =(exp((X[m, n] - Top[m]) / C[m])); S[m: M] = +(E[m, n]);"
     "O[m, n: M, N] = =(E[m, n] / S[m]); }",
     {{3, 5}, {3}},
     {"Top"}},
    {"weighted sums, divided at the end",
     "function (X[M, T], V[T, D]) -> (O) { Top[m, 0: M, 1] = >(X[m, t]); E = exp(X - Top);"
     "S[m, 0: M, 1] = +(E[m, t]); R[m, d: M, D] = +(E[m, t] * V[t, d]); O = R / S; }",
     {{3, 5}, {5, 2}},
     {"Top"}},
    {"causal attention",
     "function (Q[S, D], K[T, D], V[T, D]) -> (O) { L[s, t: S, T] = +(Q[s, d] * K[t, d]);"
     "Top[s, 0: S, 1] = >(L[s, t]), s - t < S; E = exp(0.5 * (L - Top));"
     "Sum[s, 0: S, 1] = +(E[s, t]), s - t < S;"
     "R[s, d: S, D] = +(E[s, t] * V[t, d]), s - t < S; O = R / Sum; }",
     {{4, 3}, {4, 3}, {4, 3}},
     {"Top"}},
    {"a softmax of two parts",
     "function (X[M, N], Y[M, K]) -> (O) { A[m: M] = >(X[m, n]); B[m: M] = >(Y[m, k]);"
     "Top = max(A, B); S[m: M] = +(exp(X[m, n] - Top[m])); R[m: M] = +(exp(Y[m, k] - Top[m]));"
     "O[m, n: M, N] = =(exp(X[m, n] - Top[m]) / (S[m] + R[m])); }",
     {{3, 4}, {3, 2}},
     {"Top", "A", "B"}},
    {"squares, normalised",
     rows("E = square(exp(X - Top)); S[m, 0: M, 1] = +(E[m, n]);"
          "O = sqrt(E / S);"),
     {{3, 5}},
     {"Top"}},
    {"rows scaled by their largest before their norm",
     "function (X[M, N]) -> (O) { C[m, 0: M, 1] = >(abs(X[m, n])); Y = X / C;"
     "S[m, 0: M, 1] = +(Y[m, n] * Y[m, n]); O = Y * rsqrt(S); }",
     {{3, 5}},
     {"C"}},
    {"normalised twice",
     "function (X[M, N]) -> (O) { E = exp(X); S[m, 0: M, 1] = +(E[m, n]); P = E / S;"
     "T[m, 0: M, 1] = +(square(P[m, n])); O = square(P) / T; }",
     {{3, 5}},
     {"S"}},
};

TEST(Shifts, Rule7_1aHaveNoGradientWhereTheyCancel) {
  for (const Normalisation& n : kInvariant) {
    Program program = parse_text(n.text);
    Program derived = differentiate(program, "O", input_names(program));
    Program whole = differentiate(program, "O", input_names(program), {}, kWithShifts);
    for (const std::string& shift : n.shifts) {
      EXPECT_TRUE(has_adjoint(whole, shift)) << n.name << "\n" << print(whole);
      EXPECT_FALSE(has_adjoint(derived, shift)) << n.name << "\n" << print(derived);
    }
  }
}

TEST(Shifts, Rule7_1aGradientsStayWhatTheyAre) {
  for (const Normalisation& n : kInvariant) {
    for (uint64_t seed = 1; seed <= 5; ++seed) expect_right(n, seed);
  }
}

// What looks like a normalisation and is none keeps its terms.
const std::vector<Normalisation> kMoving = {
    {"a number is added to the sum",
     rows("E = exp(X - Top); S[m, 0: M, 1] = +(E[m, n]); O = E / (S + 0.001);"),
     {{3, 5}},
     {"Top"}},
    {"the sum lacks terms",
     "function (X[M, N]) -> (O) { Top[m, 0: M, 1] = >(X[m, n]); E = exp(X - Top);"
     "S[m, 0: M, 1] = +(E[m, n] * E[m, n]); O = E / S; }",
     {{3, 5}},
     {"Top"}},
    {"another row's maximum",
     "function (X[M, N]) -> (O) { Top[m: M] = >(X[m, n]);"
     "E[m, n: M, N] = =(exp(X[m, n] - Top[m])); F[m, n: M, N] = =(exp(X[m, n] - Top[M - 1 - m]));"
     "S[m: M] = +(F[m, n]); O[m, n: M, N] = =(E[m, n] / S[m]); }",
     {{3, 5}},
     {"Top"}},
    {"sums over the other dimension",
     "function (X[M, M]) -> (O) { Top[m, 0: M, 1] = >(X[m, n]); E = exp(X - Top);"
     "S[0, n: 1, M] = +(E[m, n]); O = E / S; }",
     {{4, 4}},
     {"Top"}},
    {"another temperature",
     "function (X[M, N], C[M]) -> (O) { Top[m: M] = >(X[m, n]);"
     "E[m, n: M, N] = =(exp((X[m, n] - Top[m]) / C[m])); F[m, n: M, N] = =(exp(X[m, n] - Top[m]));"
     "S[m: M] = +(F[m, n]); O[m, n: M, N] = =(E[m, n] / S[m]); }",
     {{3, 5}, {3}},
     {"Top"}},
    {"the logarithm without the maximum",
     "function (X[M, N]) -> (O) { Top[m: M] = >(X[m, n]); S[m: M] = +(exp(X[m, n] - Top[m]));"
     "O = log(S); }",
     {{3, 5}},
     {"Top"}},
    {"the maximum twice",
     "function (X[M, N]) -> (O) { Top[m: M] = >(X[m, n]); S[m: M] = +(exp(X[m, n] - Top[m]));"
     "O = log(S) + 2.0 * Top; }",
     {{3, 5}},
     {"Top"}},
    {"picked where a label may name no class",
     "function (X[M, N], Y[M, N]) -> (O) { Top[m: M] = >(X[m, n]);"
     "S[m: M] = +(exp(X[m, n] - Top[m])); P[m: M] = +(Y[m, n] > 0.5 ? X[m, n] - Top[m] : 0.0);"
     "O[] = +(log(S[m]) - P[m]); }",
     {{3, 5}, {3, 5}},
     {"Top"}},
    {"cells that a sum leaves empty",
     "function (X[M, N]) -> (O) { Top[m: M] = >(X[m, n]); B[m + 1, n: M + 1, N] = +(Top[m]), n < N;"
     "Y[m, n: M + 1, N] = =(X[0, n]), m < M + 1; D = Y - B; S[m: M + 1] = +(exp(D[m, n]));"
     "O[m, n: M + 1, N] = =(exp(X[0, n]) / S[m] / exp(B[m, n])); }",
     {{3, 4}},
     {"Top"}},
    {"the sum of a mean's distances",
     "function (X[M, N]) -> (O) { S[m: M] = +(X[m, n]); C = S / N;"
     "D[m, n: M, N] = =(X[m, n] - C[m]); Q[m: M] = +(D[m, n] * D[m, n] * D[m, n]); O = Q; }",
     {{3, 4}},
     {"C"}},
};

TEST(Shifts, Rule7_1aKeepTheirTermsWhereTheyDoNotCancel) {
  for (const Normalisation& n : kMoving) {
    Program program = parse_text(n.text);
    Program derived = differentiate(program, "O", input_names(program));
    for (const std::string& shift : n.shifts) {
      EXPECT_TRUE(has_adjoint(derived, shift)) << n.name << "\n" << print(derived);
    }
    for (uint64_t seed = 1; seed <= 3; ++seed) expect_right(n, seed);
  }
}

TEST(Shifts, Rule7_1aHoldInSecondDerivatives) {
  Program program = parse_text(kInvariant[0].text);
  Program first = differentiate(program, "O", {"X"});
  Program second = differentiate(first, "DX", {"X", "DO"});
  EXPECT_FALSE(has_adjoint(second, "Top")) << print(second);
  RandomSource random(3);
  std::vector<HostTensor> inputs = drawn({{3, 4}, {3, 4}}, random);
  std::string report;
  EXPECT_EQ(compare_with_differences({first, "DX", {"X", "DO"}, inputs}, random, report),
            Agreement::agrees)
      << report;
}

HostTensor softmax_gradient(const HostTensor& x, const HostTensor& seed) {
  Program program = parse_text(kInvariant[0].text);
  return outputs_of(differentiate(program, "O", {"X"}), {x, seed}).back();
}

// P (DP - sum DP P), whatever ties: every maximum is treated alike.
TEST(Shifts, Rule7_1aTiesNeedNoSharing) {
  HostTensor x = tensor(DType::f64, {2, 4}, {1, 1, 1, 1, 0, 3, 3, -kInf});
  HostTensor seed = tensor(DType::f64, {2, 4}, {1, 0, 0, 0, 0, 1, 0, 0});
  Values dx = values_of(softmax_gradient(x, seed));
  double p = 1 / (2 + std::exp(-3.0)), q = std::exp(-3.0) * p;
  Values expected = {0.1875, -0.0625, -0.0625, -0.0625, -q * p, p * (1 - p), -p * p, 0};
  EXPECT_THAT(dx, testing::Pointwise(testing::DoubleNear(1e-15), expected));
}

TEST(Shifts, Rule7_1aNaNAndInfinitiesReachTheirRowAlone) {
  HostTensor x = tensor(DType::f64, {4, 2}, {kNan, 1, kInf, 1, -kInf, -kInf, 2, 2});
  HostTensor seed = tensor(DType::f64, {4, 2}, {1, 0, 1, 0, 1, 0, 1, 0});
  Values dx = values_of(softmax_gradient(x, seed));
  for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(std::isnan(dx[i])) << i;
  EXPECT_EQ((Values{dx[6], dx[7]}), (Values{0.25, -0.25}));
}

// The proof holds where sums have no points: there the shift has no gradient either.
TEST(Shifts, Rule7_1aOfSumsWithoutPoints) {
  Program program = parse_text(
      "function (X[M, N], C[M]) -> (O) { T = 2.0 * C; S[m: M] = +(exp(X[m, n] - T[m]));"
      "O = log(S) + T; }");
  HostTensor x(DType::f64, {2, 0}), c = tensor(DType::f64, {2}, {1, 2});
  HostTensor seed = tensor(DType::f64, {2}, {1, 1});
  Program derived = differentiate(program, "O", {"C"});
  EXPECT_EQ(values_of(outputs_of(derived, {x, c, seed}).back()), (Values{0, 0}));
}

}  // namespace
}  // namespace tile::test
