// One vector over the pairs of two parallel dimensions: random schedules that have one give the
// reference's values, and the model takes it where few channels of many groups lie side by side.
#include <gtest/gtest.h>

#include <array>

#include "core/kernel/geometry.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

NodeId product_of(Body& body, const std::vector<NodeId>& loads) {
  return body.operation(Op::mul, {loads[0], loads[1]}, DType::f32);
}

// Three taps along x for each of some groups of channels.
Kernel grouped_taps(int64_t size, int64_t groups, int64_t in, int64_t out) {
  KernelBuilder b;
  TensorId I = b.tensor("I", DType::f32, {size, groups, in});
  TensorId K = b.tensor("K", DType::f32, {3, groups, in, out});
  TensorId O = b.tensor("O", DType::f32, {size, groups, out});
  b.stage(O, Aggregation::sum, DType::f32,
          {{{"x", "g", "o", "i", "c"},
            {size, groups, out, 3, in},
            3,
            {"x", "g", "o"},
            {{I, {"x + i - 1", "g", "c"}}, {K, {"i", "g", "c", "o"}}},
            {{"x + i - 1", 0, size}},
            product_of}});
  return b.finish();
}

// Products of small matrices, one for each b.
Kernel small_products(int64_t batch, int64_t m, int64_t n, int64_t k) {
  KernelBuilder b;
  TensorId A = b.tensor("A", DType::f32, {batch, m, k}),
           B = b.tensor("B", DType::f32, {batch, k, n});
  TensorId C = b.tensor("C", DType::f32, {batch, m, n});
  b.stage(C, Aggregation::sum, DType::f32,
          {{{"b", "i", "j", "k"},
            {batch, m, n, k},
            3,
            {"b", "i", "j"},
            {{A, {"b", "i", "k"}}, {B, {"b", "k", "j"}}},
            {},
            product_of}});
  return b.finish();
}

bool joins(const Schedule& s) { return joins_lanes(s.stages[0][0]); }

// Random schedules with joined lanes, until `wanted` of them have been tried.
void expect_joined_agree(const Kernel& kernel, int wanted) {
  expect_chosen_schedules_agree(kernel, small_integers(kernel, 5), wanted, 4000, joins);
}

TEST(JoinedLanes, RandomSchedulesAgree) {
  expect_joined_agree(grouped_taps(7, 6, 4, 4), 60);
  expect_joined_agree(grouped_taps(5, 5, 2, 3), 60);
  expect_joined_agree(grouped_taps(6, 3, 1, 7), 60);
  expect_joined_agree(small_products(5, 3, 3, 4), 60);
  expect_joined_agree(small_products(2, 1, 5, 1), 60);
}

TEST(JoinedLanes, TakenForFewChannelsOfManyGroups) {
  Target target = wide_target();
  Schedule few = analytic_schedule(grouped_taps(28, 32, 4, 4), target);
  EXPECT_TRUE(joins(few)) << print(few);
  // A vector of its own for each group.
  Schedule many = analytic_schedule(grouped_taps(28, 4, 32, 32), target);
  EXPECT_FALSE(joins(many)) << print(many);
  for (const Kernel& kernel : {grouped_taps(9, 5, 3, 3), small_products(40, 4, 4, 4)}) {
    Values inputs = small_integers(kernel, 5), expected = inputs;
    brute_force(kernel, expected);
    nest::Nest nest = lower(kernel, analytic_schedule(kernel, target), target);
    EXPECT_EQ(difference(kernel, expected, run_nest(nest, kernel, inputs)), "");
  }
}

// Both parallel dimensions whole in one register tile, the reduction written out.
TEST(JoinedLanes, TakenForSmallProductsAsAWhole) {
  Target target = wide_target();
  for (auto [m, n, k] : {std::array{8, 8, 8}, {7, 8, 8}, {12, 4, 8}, {5, 7, 6}, {9, 3, 1}}) {
    Kernel kernel = small_products(1, m, n, k);
    Schedule schedule = analytic_schedule(kernel, target);
    SCOPED_TRACE(print(schedule));
    if (n == 8) {
      EXPECT_TRUE(joins(schedule));
      EXPECT_EQ(schedule.stages[0][0].tile.size(), 3U);
    }
    Values inputs = small_integers(kernel, 5), expected = inputs;
    brute_force(kernel, expected);
    nest::Nest nest = lower(kernel, schedule, target);
    EXPECT_EQ(difference(kernel, expected, run_nest(nest, kernel, inputs)), "");
  }
}

TEST(JoinedLanes, IllegalOverAPartOfTheLastIterator) {
  Kernel kernel = grouped_taps(8, 8, 4, 4);
  auto rule = [&](const std::string& outer, const std::string& tile, const Target& target) {
    return illegal(parse_schedule("schedule { stage { piece outer (" + outer +
                                  ") reduce (3:1 serial, 4:1 serial) tile (" + tile + ") } }"),
                   kernel, target);
  };
  Target wide = wide_target();
  std::string joined = "1:1 vector, 2:1 vector", all = "0:1 serial, 1:4 serial";
  EXPECT_EQ(rule(all, joined, wide), "");
  EXPECT_EQ(rule(all + ", 2:4 serial", joined, wide), "");
  EXPECT_EQ(rule(all + ", 2:2 serial", joined, wide),
            "joined lanes over a part of the last iterator");
  EXPECT_EQ(rule("1:4 serial", "0:1 vector, 1:1 vector, 2:1 vector", wide),
            "a vector loop not last");
  EXPECT_EQ(rule(all, joined, h200_target()), "joined lanes on a GPU");
}

}  // namespace
}  // namespace tile::testing
