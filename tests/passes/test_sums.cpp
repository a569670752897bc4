// Sums of tensors that lie apart, and sums of sums of one form: the same values before and after,
// and as few statements as there can be.
#include <gtest/gtest.h>

#include <cmath>

#include "core/pipeline/pipeline.h"
#include "tests/random/random_program.h"
#include "tests/random/random_source.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

struct Passed {
  std::vector<HostTensor> before, assembled, stacked;
  BoundProgram program;  // after both
};

Passed pass(const std::string& text, const std::vector<HostTensor>& inputs) {
  Passed p;
  BoundProgram program = bind_text(text, types_of(inputs));
  PipelineOptions options;
  options.after = [&](std::string_view name, const BoundProgram& now) {
    if (name == "fold-decided") p.before = interpret(now, inputs).outputs;
    if (name == "assemble-sums") p.assembled = interpret(now, inputs).outputs;
    if (name != "stack-sums") return;
    p.stacked = interpret(now, inputs).outputs;
    p.program = now;
  };
  run_pipeline(program, {}, options);
  return p;
}

bool same_bits(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    for (int64_t k = 0; k < a[i].count(); ++k) {
      double x = a[i].at(k).f, y = b[i].at(k).f;
      bool nan = std::isnan(x) && std::isnan(y);  // of whatever sign
      if (!nan && (x != y || std::signbit(x) != std::signbit(y))) return false;
    }
  }
  return true;
}

const Contraction& statement(const BoundProgram& program, size_t s) {
  return std::get<Contraction>(program.statements.at(s));
}

// A term's statement: some cells of S[N, M], chosen at random, each at most once.
std::string random_term(RandomSource& random, const std::string& name, int64_t n, int64_t m) {
  auto index = [&](const std::string& u, int64_t extent, std::string& conditions) -> std::string {
    if (random.percent(40)) return std::to_string(random.in(0, extent - 1));
    if (random.percent(40) && extent > 3) {
      int64_t step = random.in(2, 3), first = random.in(0, step - 1);
      int64_t last = (extent - 1 - first) / step;
      conditions += ", " + u + " < " + std::to_string(random.in(1, last + 1));
      return std::to_string(step) + " * " + u + " + " + std::to_string(first);
    }
    int64_t first = random.in(0, extent - 1);
    conditions += ", " + u + " < " + std::to_string(random.in(1, extent - first));
    return first == 0 ? u : u + " + " + std::to_string(first);
  };
  std::string conditions, at_n = index("i", n, conditions), at_m = index("j", m, conditions);
  std::string body =
      random.pick<std::string>({"A[i, j]", "B[i, j] * A[i, j]", "A[i, j] * B[j, k]"});
  auto fixed = [&](const std::string& at, const std::string& u) {
    if (at.find(u) != std::string::npos) return;
    size_t p = 0;
    while ((p = body.find(u, p)) != std::string::npos) body.replace(p, 1, "0");
  };
  fixed(at_n, "i");
  fixed(at_m, "j");
  bool sums = body.find('k') != std::string::npos;
  return name + "[" + at_n + ", " + at_m + ": N, M] = " + (sums || random.percent(50) ? "+" : "=") +
         "(" + body + ")" + conditions + "; ";
}

std::string random_sum(RandomSource& random, int64_t n, int64_t m) {
  std::string text = "function (A[N, M], B[N, M], Z[N, M]) -> (S) { ", sum;
  int64_t terms = random.in(2, 7);
  for (int64_t t = 0; t < terms; ++t) {
    std::string name = "T" + std::to_string(t);
    text += random_term(random, name, n, m);
    sum += (t == 0 ? "" : " + ") + name;
  }
  if (random.percent(25)) sum += " + Z";
  return text + "S = " + sum + "; }";
}

HostTensor special(RandomSource& random, const Shape& shape) {
  HostTensor t(DType::f32, shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    double v = random.pick<double>({-0.0, 0.0, 1, -2, 3, kNan, kInf, -kInf, 5, -0.0});
    t.set(i, real_scalar(v, DType::f32));
  }
  return t;
}

TEST(Sums, RandomTermsThatOverlapOrDoNotKeepEveryBit) {
  size_t assembled = 0;
  for (uint64_t seed : seeds(0, 1500)) {
    RandomSource random(seed);
    int64_t n = random.in(1, 7), m = n;
    std::string text = random_sum(random, n, m);
    std::vector<HostTensor> inputs;
    for (int i = 0; i < 3; ++i) inputs.push_back(special(random, {n, m}));
    Passed p = pass(text, inputs);
    ASSERT_TRUE(same_bits(p.before, p.assembled)) << "seed " << seed << ":\n" << text;
    // Small integers add up exactly in any order, and infinities stay infinite or become NaN.
    ASSERT_TRUE(same_bits(p.before, p.stacked)) << "seed " << seed << ":\n" << text;
    for (const BoundStatement& s : p.program.statements) {
      assembled += std::get<Contraction>(s).pieces.size() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(assembled, 100U);
}

// T is zero but in some cells of one step.
TEST(Sums, LiteralStepsAreOneStatement) {
  RandomSource random(1);
  std::vector<HostTensor> inputs{special(random, {5, 3}), special(random, {5, 3})};
  Passed p = pass(
      "function (A[N, M], B[N, M]) -> (S) { T0[0, j: N, M] = +(A[0, j]); T1[3, j: N, M] = +(B[1, "
      "j]);"
      " T2[1, j: N, M] = =(A[2, j] * B[2, j]); S = T0 + T1 + T2; }",
      inputs);
  ASSERT_EQ(p.program.statements.size(), 1U) << print(p.program);
  EXPECT_EQ(statement(p.program, 0).pieces.size(), 3U);
  EXPECT_TRUE(same_bits(p.before, p.stacked));
}

TEST(Sums, RemaindersLieApart) {
  RandomSource random(2);
  std::vector<HostTensor> inputs{special(random, {4}), special(random, {3})};
  std::string odd =
      "function (A[N], B[M]) -> (S) { T0[2 * i: 8] = =(A[i]); T1[2 * i + 1: 8] = =(B[i]);"
      " S = T0 + T1; }";
  Passed p = pass(odd, inputs);
  EXPECT_EQ(p.program.statements.size(), 1U) << print(p.program);
  EXPECT_TRUE(same_bits(p.before, p.stacked));
  std::string both = odd;
  both.replace(both.find("2 * i + 1"), 9, "2 * i + 2");
  p = pass(both, inputs);
  EXPECT_EQ(p.program.statements.size(), 3U) << "they meet:\n" << print(p.program);
}

// A window that wraps around has points outside of the tensor, which conditions leave out.
TEST(Sums, PlacesOutsideAreNotCopied) {
  RandomSource random(3);
  std::vector<HostTensor> inputs{special(random, {8}), special(random, {8})};
  Passed p = pass(
      "function (A[N], B[N]) -> (S) { T0[i + 8 * t - 1, 0: 8, 3] = +(A[i]), t < 2;"
      " T1[i, 2: 8, 3] = =(B[i]); T2[i, 1: 8, 3] = =(A[i]); S = T0 + T1 + T2; }",
      inputs);
  verify(p.program);
  EXPECT_TRUE(same_bits(p.before, p.stacked)) << print(p.program);
}

// Overlapping terms are added; those of one group are assembled.
TEST(Sums, GroupsOfTermsThatLieApart) {
  RandomSource random(3);
  std::vector<HostTensor> inputs{special(random, {6})};
  Passed p = pass(
      "function (A[N]) -> (S) { T0[i: N] = =(A[i]), i < 3; T1[i + 3: N] = =(A[i]), i < 3;"
      " T2[i + 1: N] = =(A[i]), i < 4; S = T0 + T1 + T2; }",
      inputs);
  ASSERT_EQ(p.program.statements.size(), 3U) << print(p.program);
  EXPECT_TRUE(same_bits(p.before, p.stacked));
}

// What others read, too, and what has a default are not taken apart.
TEST(Sums, SharedTermsAndDefaultsStay) {
  RandomSource random(4);
  std::vector<HostTensor> inputs{special(random, {6}), special(random, {6})};
  const std::string shared =
      "function (A[N], D[N]) -> (S, T0) { T0[0: N] = =(A[0]); T1[1: N] = =(A[1]); S = T0 + T1; }";
  EXPECT_EQ(pass(shared, inputs).program.statements.size(), 3U);
  const std::string filled =
      "function (A[N], D[N]) -> (S) { T0[0: N] = =(A[0]) default D; T1[1: N] = =(A[1]);"
      " S = T0 + T1; }";
  Passed p = pass(filled, inputs);
  EXPECT_EQ(p.program.statements.size(), 3U);
  EXPECT_TRUE(same_bits(p.before, p.stacked));
}

HostTensor small(RandomSource& random, const Shape& shape) {
  HostTensor t(DType::f32, shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    t.set(i, real_scalar(static_cast<double>(random.in(-4, 4)), DType::f32));
  }
  return t;
}

// S = A0 B0 + A1 B1 + A2 B1, whose terms have one form, is one sum over three stacked pairs.
TEST(Sums, ProductsOfOneFormAreOneProduct) {
  RandomSource random(5);
  std::vector<HostTensor> inputs;
  for (int i = 0; i < 3; ++i) inputs.push_back(small(random, {2, 5}));
  for (int i = 0; i < 2; ++i) inputs.push_back(small(random, {2, 7}));
  Passed p = pass(
      "function (A0[K, M], A1[K, M], A2[K, M], B0[K, N], B1[K, N]) -> (S) {"
      " P[m, n: M, N] = +(A0[k, m] * B0[k, n]); Q[m, n: M, N] = +(A1[k, m] * B1[k, n]);"
      " R[m, n: M, N] = +(A2[k, m] * B1[k, n]); S = P + Q + R; }",
      inputs);
  ASSERT_EQ(p.program.statements.size(), 3U) << print(p.program);  // two stacks, one product
  EXPECT_EQ(statement(p.program, 2).pieces[0].box.back(), 3);
  EXPECT_TRUE(same_bits(p.before, p.stacked));
}

// What all share stays as it is, and other terms are added.
TEST(Sums, SharedFactorsAndOtherTermsStay) {
  RandomSource random(6);
  std::vector<HostTensor> inputs{small(random, {2, 5}), small(random, {2, 5}),
                                 small(random, {2, 7}), small(random, {5, 7})};
  Passed p = pass(
      "function (A0[K, M], A1[K, M], B[K, N], Z[M, N]) -> (S) {"
      " P[m, n: M, N] = +(A0[k, m] * B[k, n]); Q[m, n: M, N] = +(A1[k, m] * B[k, n]);"
      " S = P + Z + Q; }",
      inputs);
  ASSERT_EQ(p.program.statements.size(), 3U) << print(p.program);  // a stack, a product, the sum
  EXPECT_TRUE(same_bits(p.before, p.stacked));
}

// Sums into few cells would need larger copies than what they save.
TEST(Sums, LargeOperandsAreNotCopied) {
  RandomSource random(7);
  std::vector<HostTensor> inputs{small(random, {20, 2}), small(random, {20, 2}),
                                 small(random, {20, 2})};
  Passed p = pass(
      "function (A[K, M], B[K, M], C[K, N]) -> (S) { P[m, n: M, N] = +(A[k, m] * C[k, n]);"
      " Q[m, n: M, N] = +(B[k, m] * C[k, n]); S = P + Q; }",
      inputs);
  EXPECT_EQ(p.program.statements.size(), 3U) << print(p.program);
}

// A stack of one operand that an assembly is already is not made again; the sum takes its order.
TEST(Sums, AnAssemblyIsAStack) {
  RandomSource random(8);
  std::vector<HostTensor> inputs{small(random, {2, 3}), small(random, {2, 3}),
                                 small(random, {2, 9})};
  Passed p = pass(
      "function (A[K, M], B[K, M], C[K, N]) -> (S, W) {"
      " F0[0, m: K, M] = =(A[0, m]); F1[1, m: K, M] = =(B[1, m]); F = F0 + F1;"
      " G0[0, m: K, M] = =(B[0, m]); G1[1, m: K, M] = =(A[1, m]); G = G0 + G1;"
      " T0[0, k, m: 2, K, M] = =(G[k, m]); T1[1, k, m: 2, K, M] = =(F[k, m]); W = T1 + T0;"
      " P[m, n: M, N] = +(F[k, m] * C[k, n]); Q[m, n: M, N] = +(G[k, m] * C[k, n]); S = P + Q; }",
      inputs);
  ASSERT_EQ(p.program.statements.size(), 4U) << print(p.program);  // F, G, W and S
  EXPECT_TRUE(same_bits(p.before, p.stacked));
}

}  // namespace
}  // namespace tile::test
