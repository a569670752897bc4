// Factors and divisors of a sum's terms that are applied to the sum: the same values as of terms
// that have them, also where sums of what they are applied to leave the range of f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/pipeline/pipeline.h"
#include "core/target/target.h"
#include "tests/random/random_source.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

constexpr const char* kTerms =
    "function (X[P, C], A[C], B[C], D[C]) -> (R) { R[c: C] = +(X[p, c] * A[c] / B[c] / D[c]); }";
constexpr int64_t kRows = 16, kColumns = 64;

struct Sums {
  HostTensor want, got;
};

Sums summed(const std::vector<HostTensor>& inputs) {
  BoundProgram program = bind_text(kTerms, types_of(inputs));
  Sums sums;
  sums.want = interpret(program, inputs).outputs[0];
  PipelineOptions options;
  options.after = [&](std::string_view name, const BoundProgram& now) {
    if (name != "factor-sums") return;
    EXPECT_EQ(now.statements.size(), 2U) << "the sum, and what is done with it";
    sums.got = interpret(now, inputs).outputs[0];
  };
  run_pipeline(program, *gpu_target("sm_90a"), options);
  return sums;
}

HostTensor filled(const Shape& shape, const std::function<double(int64_t)>& value) {
  HostTensor t(DType::f32, shape);
  for (int64_t i = 0; i < t.count(); ++i) t.set(i, real_scalar(value(i), DType::f32));
  return t;
}

TEST(FactorSums, TermsInTheRangeStayInIt) {
  RandomSource random(1);
  // Exponents of which every partial product is one of a normal number, and so is the sum of the
  // terms; but sums of what the terms are made of may not be.
  std::vector<std::array<int64_t, 4>> exponents;
  while (exponents.size() < kColumns) {
    std::array<int64_t, 4> e{};
    for (int64_t& x : e) x = random.in(-120, 126);
    int64_t a = e[0] + e[1], b = a - e[2], d = b - e[3];
    if (std::max({std::abs(a), std::abs(b), std::abs(d) + 6}) <= 126) exponents.push_back(e);
  }
  auto column = [&](int which) {
    return [&, which](int64_t i) {
      double size = std::ldexp(1 + 0.001 * random.in(0, 99), exponents[i % kColumns][which]);
      return i % 3 == 0 && which > 0 ? -size : size;
    };
  };
  Sums sums = summed({filled({kRows, kColumns}, column(0)), filled({kColumns}, column(1)),
                      filled({kColumns}, column(2)), filled({kColumns}, column(3))});
  for (int64_t c = 0; c < kColumns; ++c) {
    double want = sums.want.at(c).f;
    EXPECT_NEAR(sums.got.at(c).f / want, 1, 1e-6) << "column " << c << ": " << want;
  }
}

TEST(FactorSums, PowersOfTwoAreExact) {
  auto power = [](int64_t i) { return std::ldexp(1, static_cast<int>(i % 13) - 6); };
  auto whole = [](int64_t i) { return static_cast<double>(i % 37 - 18); };
  Sums sums = summed({filled({kRows, kColumns}, whole), filled({kColumns}, power),
                      filled({kColumns}, power), filled({kColumns}, power)});
  EXPECT_EQ(sums.got.bytes, sums.want.bytes);
}

TEST(FactorSums, ZerosAndWhatIsNotFiniteStayWhatTheyAre) {
  const std::vector<double> values{0, -0.0, 1, -2, 3e38, 1e-30, 1e-36, kInf, -kInf, kNan};
  RandomSource random(2);
  for (int round = 0; round < 200; ++round) {
    // Columns of one value each, for a sum of terms that are alike.
    std::vector<double> x(kColumns);
    for (double& v : x) v = random.pick(values);
    auto any = [&](int64_t) { return random.pick(values); };
    std::vector<HostTensor> inputs{
        filled({kRows, kColumns}, [&](int64_t i) { return x[i % kColumns]; }),
        filled({kColumns}, any), filled({kColumns}, any), filled({kColumns}, any)};
    Sums sums = summed(inputs);
    for (int64_t c = 0; c < kColumns; ++c) {
      double term = x[c], exact = term;
      bool in_range = true;  // of normal numbers, or zero or not finite from the operands on
      for (int in = 1; in <= 3; ++in) {
        double y = inputs[in].at(c).f;
        exact = in == 1 ? exact * y : exact / y;
        bool plain = exact == 0 || !std::isfinite(exact);
        in_range = in_range && (plain || (std::fabs(exact) < 2e37 && std::fabs(exact) > 2e-38));
      }
      if (!in_range) continue;
      double want = sums.want.at(c).f, got = sums.got.at(c).f;
      bool same =
          std::isnan(want) ? std::isnan(got) : (want == got || std::fabs(got / want - 1) < 1e-6);
      EXPECT_TRUE(same) << x[c] << " * " << inputs[1].at(c).f << " / " << inputs[2].at(c).f << " / "
                        << inputs[3].at(c).f << ": " << want << " and " << got;
    }
  }
}

// A quotient by zero and a product with infinity are infinite with the sign of the term, and NaN of
// zero: terms of both signs, and zeros among others, have no sum.
TEST(FactorSums, InfinitiesHaveTheSignsOfTheirTerms) {
  const std::vector<double> values{1, -2, 0.5}, factors{0, -0.0, 1, -2, 3, kInf, -kInf, kNan};
  RandomSource random(3);
  int infinite = 0, none = 0;
  for (int round = 0; round < 50; ++round) {
    auto element = [&](int64_t i) {
      double size = std::fabs(random.pick(values));
      bool alike = i % kColumns % 2 == 0;  // the signs in a column; the others have zeros too
      return alike ? size : random.in(0, 9) == 0 ? 0 : random.pick(values);
    };
    auto factor = [&](int64_t) { return random.pick(factors); };
    Sums sums = summed({filled({kRows, kColumns}, element), filled({kColumns}, factor),
                        filled({kColumns}, factor), filled({kColumns}, factor)});
    for (int64_t c = 0; c < kColumns; ++c) {
      double want = sums.want.at(c).f, got = sums.got.at(c).f;
      if (std::isfinite(want)) {
        EXPECT_NEAR(got, want, 1e-5 * kRows) << "column " << c;
        continue;
      }
      ++(std::isnan(want) ? none : infinite);
      EXPECT_TRUE(std::isnan(want) ? std::isnan(got) : want == got)
          << "column " << c << ": " << want << " and " << got;
    }
  }
  EXPECT_GT(infinite, 100);
  EXPECT_GT(none, 100);
}

}  // namespace
}  // namespace tile::test
