// Factors beside the two matrices of a term, and tensors read through views that only add or drop
// dimensions: the same results, and the kernels of the usual spellings.
#include <gtest/gtest.h>

#include "core/fusion/group.h"
#include "core/pipeline/pipeline.h"
#include "core/support/choices.h"
#include "tests/random/random_program.h"
#include "tests/random/random_source.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"

namespace tile::test {
namespace {

// Products and quotients of these are exact in any order.
HostTensor powers(RandomSource& random, const Shape& shape) {
  HostTensor t(DType::f32, shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    double v = random.pick<double>({-4, -2, -1, -0.5, 0.5, 1, 2, 4});
    t.set(i, real_scalar(v, DType::f32));
  }
  return t;
}

// A product of A and B and of up to three other factors, some with iterators of both.
std::string random_term(RandomSource& random) {
  std::vector<std::string> factors{"A[i, k]", "B[k, j]"};
  for (int64_t n = random.in(1, 3); n > 0; --n) {
    factors.push_back(
        random.pick<std::string>({"R[i]", "C[j]", "T[k]", "(i + 1)", "2.0", "exp2(0.0 * T[k])",
                                  "(R[i] * 0.5)", "M[i, j]", "R[k]", "R[i - k]", "R[k + 3]"}));
  }
  std::string term;
  for (size_t i = factors.size(); i-- > 0;)
    std::swap(factors[i], factors[static_cast<size_t>(random.in(0, static_cast<int64_t>(i)))]);
  for (const std::string& f : factors) {
    bool matrix = f[0] == 'A' || f[0] == 'B';
    bool divides = !term.empty() && !matrix && random.percent(50);
    term += (term.empty() ? "" : divides ? " / " : " * ") + f;
  }
  return term;
}

TEST(SeparateFactors, RandomProductsKeepEveryBit) {
  size_t separated = 0;
  for (uint64_t seed : seeds(0, 200)) {
    RandomSource random(seed);
    std::string condition = random.pick<std::string>({"", "", ", i - k < 16", ", k < 20"});
    std::string text =
        "function (A[N, N], B[N, N], R[N], C[N], T[N], M[N, N]) -> (O, E) {\n  O[i, j: N, N] = +(" +
        random_term(random) + ")" + condition + ";\n  E[j, i: N, N] = +(" + random_term(random) +
        ");\n}\n";
    int64_t n = random.in(15, 20);
    std::vector<HostTensor> inputs{powers(random, {n, n}), powers(random, {n, n}),
                                   powers(random, {n}),    powers(random, {n}),
                                   powers(random, {n}),    powers(random, {n, n})};
    BoundProgram program = bind_text(text, types_of(inputs));
    std::vector<HostTensor> before;
    size_t statements = 0;
    PipelineOptions options;
    options.after = [&](std::string_view name, const BoundProgram& now) {
      if (name == "stack-sums") {
        before = interpret(now, inputs).outputs;
        statements = now.statements.size();
      }
      if (name != "separate-factors") return;
      separated += now.statements.size() > statements;
      std::vector<HostTensor> after = interpret(now, inputs).outputs;
      for (size_t o = 0; o < before.size(); ++o) {
        ASSERT_EQ(before[o].bytes, after[o].bytes) << "seed " << seed << ":\n" << text;
      }
    };
    run_pipeline(program, {}, options);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(separated, 40u);
}

// Where what stores less is chosen, no tensor is added.
TEST(SeparateFactors, ProgramsThatHardlyFitKeepTheirTensors) {
  auto statements = [] {
    BoundProgram program = bind_text(
        "function (A[N, N], B[N, N], R[N]) -> (O) { O[i, j: N, N] = +(A[i, k] * B[k, j] / R[i]); }",
        {{DType::f32, {64, 64}}, {DType::f32, {64, 64}}, {DType::f32, {64}}});
    run_pipeline(program, testing::wide_target(), {});
    return program.statements.size();
  };
  EXPECT_EQ(statements(), 2U);
  SpaceFirst now;
  EXPECT_EQ(statements(), 1U);
}

size_t kernels_of(const std::string& text, const std::vector<InputType>& types) {
  BoundProgram program = bind_text(text, types);
  Target target = testing::wide_target();
  run_pipeline(program, target, {});
  GroupOptions options;
  options.streams = true;
  return group(program, target, options).size();
}

std::string attention(const std::string& result, const std::string& condition) {
  return "function (Q[H, S, D], K[H, S, D], V[H, S, D]) -> (O) {\n"
         "  L[h, s, t: H, S, S] = +(Q[h, s, d] * K[h, t, d]);\n"
         "  Z = L * 0.125;\n"
         "  Top[h, s, 0: H, S, 1] = >(Z[h, s, t])" +
         condition +
         ";\n"
         "  E = exp(Z - Top);\n"
         "  Sum[h, s: H, S] = +(E[h, s, t])" +
         condition + ";\n" + result + condition + ";\n}\n";
}

// A divisor inside the sum, and one that is read through a view of the sum of weights.
TEST(SeparateFactors, AttentionIsOneKernelInEachSpelling) {
  const std::vector<InputType> types(3, InputType{DType::f32, {4, 512, 64}});
  for (const std::string condition : {"", ", s - t < S"}) {
    for (const std::string result :
         {"  O[h, s, d: H, S, D] = +(E[h, s, t] * V[h, t, d] / Sum[h, s])",
          "  O[h, s, d: H, S, D] = +(E[h, s, t] / Sum[h, s] * V[h, t, d])",
          "  I = 1.0 / Sum;\n  O[h, s, d: H, S, D] = +(V[h, t, d] * I[h, s] * E[h, s, t])",
          "  P = E / reshape(Sum, H, S, 1);\n  O[h, s, d: H, S, D] = +(P[h, s, t] * V[h, t, d])"}) {
      EXPECT_EQ(kernels_of(attention(result, condition), types), 1u) << condition << "\n" << result;
    }
  }
}

}  // namespace
}  // namespace tile::test
