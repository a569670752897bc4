// The terms of an estimate are the estimate: at every level the parts make the whole, as they say
// they do, and the whole is what the search compares.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/fusion/group.h"
#include "core/ir/operation_cost.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/cost/piece/piece_model.h"
#include "core/schedule/cost/tensor_core_gemm_rank.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "core/schedule/space/piece/piece_space.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_program.h"
#include "tests/support/random_schedule.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

// The first term whose parts do not make it; empty: there is none.
std::string fault_in(const CostTerm& term) {
  if (!std::isfinite(term.ns)) return term.name + " is not finite";
  if (std::abs(combined(term) - term.ns) > 1e-9 * (std::abs(term.ns) + 1)) {
    return term.name + ": " + std::to_string(term.ns) + " of parts that make " +
           std::to_string(combined(term));
  }
  for (const CostTerm& part : term.parts) {
    if (std::string fault = fault_in(part); !fault.empty()) return term.name + " / " + fault;
  }
  return "";
}

void collect(const CostTerm& term, std::set<std::string>& names) {
  names.insert(term.name.substr(0, term.name.find(' ')));
  names.insert(term.name);
  for (const CostTerm& part : term.parts) collect(part, names);
}

void expect_terms(const Schedule& schedule, const Kernel& kernel, const Target& target,
                  std::set<std::string>& names) {
  CostTerm terms;
  double ns = estimate(schedule, kernel, target);
  EXPECT_EQ(estimate(schedule, kernel, target, &terms), ns) << print(schedule);
  EXPECT_EQ(terms.ns, ns);
  EXPECT_EQ(fault_in(terms), "") << target.device << "\n" << print(schedule);
  EXPECT_FALSE(terms.parts.empty());
  collect(terms, names);
}

// The best candidates and random schedules.
void expect_terms(const Kernel& kernel, const Target& target, uint64_t seed,
                  std::set<std::string>& names) {
  for (const Schedule& s : candidates(kernel, target, 3)) expect_terms(s, kernel, target, names);
  for (uint64_t i = 0; i < 3; ++i) {
    Schedule s = random_schedule(kernel, target, seed + i);
    if (illegal(s, kernel, target).empty()) expect_terms(s, kernel, target, names);
  }
}

void expect_names(const std::set<std::string>& names, const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted) EXPECT_TRUE(names.contains(name)) << name;
}

TEST(EstimateTerms, PartsMakeTheWholeOnCpus) {
  std::set<std::string> names;
  Target one = wide_target();
  one.threads = 1;
  for (const Target& target : {wide_target(), small_target(), tile_target(), one}) {
    uint64_t seed = 1;
    for (const Kernel& kernel :
         {matrix_product(300, 301, 302), matrix_product(33, 17, 2000),
          matrix_bias_gelu(128, 96, 64), matrix_product(256, 256, 512, DType::bf16),
          convolution(2, 29, 16, 40, 3, 1, 1), depthwise(40, 48, 3), max_pool(40, 32, 3, 2, 1),
          row_sum(1000, 333, false), row_sum(3000, 257, true), prefix_sum(5000),
          normalised_rows(200, 300, false, false), normalised_rows(64, 500, true, true),
          transpose(700, 900), scaled_copy({1000, 1000}), filter_gradient(2, 20, 8, 16, 3, 1)}) {
      expect_terms(kernel, target, seed += 100, names);
    }
  }
  expect_names(names,
               {"arithmetic", "loads", "stores", "from the second cache", "from the third cache",
                "from memory", "page translations", "packing", "starting threads",
                "uneven last tasks", "remainder tiles", "tests at borders", "much code",
                "whole blocks", "stages of a block", "steps along the carried dimension"});
}

TEST(EstimateTerms, PartsMakeTheWholeOnGpus) {
  std::set<std::string> names;
  Target rounded = h200_target();
  rounded.precision = Precision::tf32;
  for (const Target& target : {h200_target(), a100_target(), rounded}) {
    uint64_t seed = 1;
    for (const Kernel& kernel :
         {matrix_product(512, 512, 512), matrix_product(64, 96, 8192),
          matrix_product(1024, 1024, 4096, DType::bf16), matrix_product(128, 128, 8192, DType::f16),
          matrix_product(2176, 2176, 4096, DType::bf16), matrix_bias_gelu(512, 256, 256),
          row_sum(2000, 3000, false), row_sum(3000, 2000, true), transpose(2048, 1024),
          scaled_copy({4000, 1000}), normalised_rows(4096, 1024, false, false),
          convolution(8, 28, 64, 64, 3, 1, 1), prefix_sum(1 << 16)}) {
      expect_terms(kernel, target, seed += 100, names);
    }
  }
  expect_names(names,
               {"instructions", "memory", "launch", "steps that wait", "storing cells",
                "multiplying tiles", "finishing tiles", "combining blocks in a second launch",
                "waves of blocks", "threads that wait for loads", "combining lanes"});
}

TEST(EstimateTerms, OfRandomPrograms) {
  std::set<std::string> names;
  for (uint64_t seed : test::seeds(0, 80)) {
    test::RandomCase drawn = test::random_case(seed, {});
    SCOPED_TRACE(drawn.text);
    Target target = seed % 4 == 0   ? h200_target()
                    : seed % 4 == 1 ? a100_target()
                    : seed % 4 == 2 ? wide_target()
                                    : small_target();
    BoundProgram program = test::bind_text(drawn.text, drawn.types);
    run_pipeline(program, target);
    for (const Step& step : group(program, target)) {
      const auto* kernel = std::get_if<Kernel>(&step);
      if (kernel != nullptr) expect_terms(*kernel, target, seed, names);
    }
  }
}

// What a piece is ranked by has these terms.
TEST(EstimateTerms, TheSearchComparesTheSameTimes) {
  Kernel kernel = matrix_product(200, 300, 400);
  Target target = wide_target();
  const Contraction& c = kernel.stages[0].contraction;
  PieceModel model(c.pieces[0], c, kernel, target);
  for (const RankedPiece& r : piece_candidates(kernel, 0, 0, target)) {
    CostTerm terms;
    ASSERT_EQ(model.nanoseconds(r.schedule, &terms), r.nanoseconds);
    ASSERT_EQ(fault_in(terms), "");
  }
  Kernel large = matrix_product(1000, 2000, 3000, DType::bf16);
  const Contraction& l = large.stages[0].contraction;
  auto product =
      tensor_cores::product_of(l.pieces[0], l, large, h200_target(), argument_layouts(large));
  ASSERT_TRUE(product);
  for (const tensor_cores::Ranked& r :
       tensor_cores::ranked_tiles(*product, l.pieces[0], large, h200_target())) {
    EXPECT_EQ(tensor_cores::estimate_gemm(r.schedule, *product, l.pieces[0], large, h200_target()),
              r.nanoseconds);
  }
}

const CostTerm* find_term(const CostTerm& term, const std::string& name) {
  if (term.name == name) return &term;
  for (const CostTerm& part : term.parts) {
    if (const CostTerm* found = find_term(part, name)) return found;
  }
  return nullptr;
}

// What all rows are multiplied with is read from afar once, however many blocks of rows there are;
// rows themselves are read once anyway.
TEST(EstimateTerms, FactorsOfAllRowsStayNear) {
  BoundProgram program = test::bind_text(
      "function (X[M, N], G[N]) -> (O) { S[m, 0: M, 1] = +(X[m, n]); O = (X - S) * G; }",
      {{DType::f32, {8192, 512}}, {DType::f32, {512}}});
  Target target = wide_target();
  target.threads = 1;
  run_pipeline(program, target);
  std::vector<Step> steps = group(program, target);
  ASSERT_EQ(steps.size(), 1);
  const auto& kernel = std::get<Kernel>(steps[0]);
  std::map<int64_t, double> far;  // by the rows of a block
  for (const Schedule& s : candidates(kernel, target, 100)) {
    ASSERT_GT(s.shared, 0);
    CostTerm terms;
    estimate(s, kernel, target, &terms);
    const CostTerm* term = find_term(terms, "arguments from behind the second cache");
    ASSERT_NE(term, nullptr);
    far[s.stages[0][0].outer[0].step] = term->ns;
  }
  ASSERT_GE(far.size(), 2);
  for (auto [rows, ns] : far) EXPECT_NEAR(ns, far.begin()->second, 0.01 * ns) << rows;
}

// A step of a volume reads from memory: tiles of several rows of a page would leave its prefetcher
// nothing to follow, tiles of several planes do not.
TEST(EstimateTerms, RowsOfAPageAreNotReadInTurns) {
  BoundProgram program = test::bind_text(
      "function (X[N, M, L]) -> (O) { O[i, j, k: N, M, L] = +(X[i, j, k] + X[i - 1, j, k] +"
      " X[i + 1, j, k] + X[i, j - 1, k] + X[i, j + 1, k] + X[i, j, k - 1] + X[i, j, k + 1]); }",
      {{DType::f32, {512, 256, 256}}});
  run_pipeline(program, wide_target());
  std::vector<Step> steps = group(program, wide_target());
  const auto& kernel = std::get<Kernel>(steps.at(0));
  auto least_of_rows = [&](IteratorId unrolled) {
    double least = std::numeric_limits<double>::infinity();
    for (const Schedule& s : candidates(kernel, wide_target(), 100)) {
      const std::vector<Loop>& tile = s.stages[0][0].tile;
      if (tile.size() != 2 || tile[0].iterator != unrolled) continue;
      least = std::min(least, estimate(s, kernel, wide_target()));
    }
    return least;
  };
  double planes = least_of_rows(IteratorId(0)), rows = least_of_rows(IteratorId(1));
  EXPECT_TRUE(std::isfinite(planes));
  EXPECT_TRUE(std::isfinite(rows));
  EXPECT_LT(1.2 * planes, rows);
}

TEST(EstimateTerms, AWrongPartIsFound) {
  CostTerm term = combine("all", Combine::overlap, 0.25, {cost_leaf("a", 4), cost_leaf("b", 8)});
  EXPECT_EQ(term.ns, 9);
  EXPECT_EQ(fault_in(term), "");
  term.parts[0].ns = 5;
  EXPECT_NE(fault_in(term), "");
  EXPECT_EQ(combine("most", Combine::largest, 2, {cost_leaf("a", 4), cost_leaf("b", 8)}).ns, 16);
  EXPECT_EQ(combine("sum", Combine::sum, 2, {cost_leaf("a", 4), cost_leaf("b", 8)}).ns, 24);
}

// A clock that the target tells scales what is counted in clocks.
TEST(EstimateTerms, ClocksAreTheTargets) {
  Kernel kernel = matrix_product(4096, 4096, 4096, DType::bf16);
  Target fast = h200_target(), slow = fast;
  slow.gpu.gigahertz /= 2;
  slow.gpu.matrix_gigahertz /= 2;
  slow.gpu.matrix_per_ns /= 2;
  slow.fma_per_ns /= 2;
  Schedule s = analytic_schedule(kernel, fast);
  ASSERT_TRUE(s.stages[0][0].form<TensorCoreGemm>());
  double ratio = estimate(s, kernel, slow) / estimate(s, kernel, fast);
  EXPECT_GT(ratio, 1.9);
  EXPECT_LT(ratio, 2.1);
  EXPECT_NE(to_string(fast), to_string(slow));
}

TEST(OperationCosts, EveryRowHasThem) {
  for (const OpInfo& row : operations()) {
    EXPECT_GE(cost_of(row.op).cycles, 0.5) << row.name;
    EXPECT_GE(cost_of(row.op).instructions, 1) << row.name;
    EXPECT_TRUE(row.rule != TypeRule::floating || is_dear(row.op)) << row.name;
  }
  EXPECT_TRUE(is_dear(Op::div));
  EXPECT_FALSE(is_dear(Op::fma));
  EXPECT_EQ(cycles_in_turn(Op::add), 1);
  EXPECT_LT(cost_of(Op::exp).cycles, cost_of(Op::pow).cycles);
}

}  // namespace
}  // namespace tile::testing
