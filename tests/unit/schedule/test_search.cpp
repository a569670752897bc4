// The race: rungs, ties, budgets on a clock of our own, the bound, what takes part beside the
// model's candidates.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "core/kernel/geometry.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/cost/time_bound.h"
#include "core/schedule/search/parametric_tiling.h"
#include "core/schedule/search/schedule_transfer.h"
#include "core/schedule/search/search.h"
#include "core/schedule/space/candidates.h"
#include "core/target/rates.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

// Schedules take the times that a test gives them by their place in the field; each run moves the
// clock.
class FakeRace {
 public:
  explicit FakeRace(Kernel kernel) : kernel_(std::move(kernel)) {
    options.clock = [this] { return now; };
  }

  std::vector<Schedule> field() const { return field_of(kernel_, wide_target(), options); }
  Schedule run(const std::function<double(size_t place)>& time) {
    std::vector<Schedule> all = field();
    runs.clear();
    auto measure = [&](const Schedule& s) {
      auto at = static_cast<size_t>(std::find(all.begin(), all.end(), s) - all.begin());
      runs.push_back(at);
      now += step;
      return time(at);
    };
    return search(kernel_, wide_target(), measure, options);
  }

  SearchOptions options;
  double now = 5, step = 1;
  std::vector<size_t> runs;

 private:
  Kernel kernel_;
};

Kernel product() { return matrix_product(600, 520, 700); }

TEST(Search, RungsAreInterleavedAndKeepTheFasterThird) {
  FakeRace race(product());
  race.options.candidates = 36;
  ASSERT_EQ(race.field().size(), 36U);
  std::vector<Schedule> field = race.field();
  EXPECT_EQ(race.run([](size_t place) { return 100.0 + 10 * std::abs(20.0 - double(place)); }),
            field[20]);
  ASSERT_EQ(race.runs.size(), 36U + 12 + 4 + 6 * 2);  // the last two in turns
  for (size_t i = 0; i < 36; ++i) EXPECT_EQ(race.runs[i], i);
  std::map<size_t, int> times;
  for (size_t place : race.runs) ++times[place];
  EXPECT_EQ(times[20], 3 + 6);
  EXPECT_EQ(times[0], 1);
}

// A race that is cut short has met many register tiles, not one of them in many orders of loops.
TEST(Search, KindsOfInnermostCodeComeFirst) {
  FakeRace race(product());
  std::vector<Schedule> field = race.field();
  EXPECT_EQ(field[0], analytic_schedule(product(), wide_target()));
  std::map<std::string, size_t> kinds;
  for (size_t i = 0; i < 12; ++i) {
    const PieceSchedule& piece = field[i].stages[0][0];
    std::string kind = std::to_string(piece.packings.size());
    for (IteratorId iterator : {IteratorId(0), IteratorId(1)}) {
      int64_t step = 0;
      for (const Loop& l : piece.outer) step = l.iterator == iterator ? l.step : step;
      kind += " " + std::to_string(step);
    }
    ++kinds[kind];
  }
  EXPECT_GE(kinds.size(), 7U);
}

// Schedules that differ in blocks, orders and threads share their code.
TEST(Search, ThirtySixCandidatesAreOfEightKernels) {
  for (const Kernel& kernel : {product(), convolution(2, 28, 24, 96, 3, 1, 1)}) {
    FakeRace race(kernel);
    std::vector<Schedule> field = race.field();
    ASSERT_EQ(field.size(), 36U);
    size_t kernels = 0, members = 0;
    for (const SharedKernel& k : shared_kernels(field, kernel, wide_target())) {
      ++kernels;
      members += k.members.size();
    }
    EXPECT_LE(kernels + field.size() - members, 8U);
  }
}

// Those who are told are measured anew, and only those times count.
TEST(Search, FinalistsAreMeasuredAnew) {
  FakeRace race(product());
  std::vector<Schedule> field = race.field(), last;
  race.options.finalists = [&](std::span<const Schedule> told) {
    ASSERT_TRUE(last.empty());
    last.assign(told.begin(), told.end());
  };
  EXPECT_EQ(race.run([&](size_t place) {
    bool late = !last.empty();
    return place == 9 ? (late ? 300.0 : 10.0) : place == 7 ? (late ? 20.0 : 60.0) : 100.0;
  }),
            field[7]);
  EXPECT_EQ(last.size(), 4U);
}

TEST(Search, IsTheSameForTheSameMeasurements) {
  FakeRace first(product()), second(product());
  auto time = [](size_t place) { return 100.0 + double(place * 7919 % 31); };
  EXPECT_EQ(first.run(time), second.run(time));
  EXPECT_EQ(first.runs, second.runs);
}

TEST(Search, LeastTimeCountsAndTiesGoToTheModel) {
  FakeRace race(product());
  std::vector<Schedule> field = race.field();
  std::map<size_t, int> seen;
  // A disturbed first run of the fastest.
  auto disturbed = [&](size_t place) {
    bool late = place == 5 && ++seen[place] > 1;
    return place == 5 ? (late ? 80.0 : 104.0) : 100.0 + double(place);
  };
  EXPECT_EQ(race.run(disturbed), field[5]);
  EXPECT_EQ(race.run([](size_t place) { return place == 3 ? 99.5 : 100.0; }), field[0]);
}

// Machines are noisy: a pick whose first runs were all disturbed is not replaced by a slower one.
TEST(Search, ADisturbedPickIsMeasuredUntilTheEnd) {
  FakeRace race(product());
  std::vector<Schedule> field = race.field();
  std::map<size_t, int> seen;
  EXPECT_EQ(race.run([&](size_t place) {
    bool disturbed = ++seen[place] < 6;
    return place == 0 ? (disturbed ? 150.0 : 90.0) : 100.0 + double(place);
  }),
            field[0]);
}

// A lucky first run replaces no pick that is as fast when measured as often.
TEST(Search, TheModelsPickIsMeasuredAsOften) {
  FakeRace race(product());
  std::vector<Schedule> field = race.field();
  std::map<size_t, int> seen;
  auto unlucky = [&](size_t place) {
    bool first = ++seen[place] == 1;
    return place == 0 && first ? 120.0 : place == 0 ? 90.0 : 100.0 + double(place);
  };
  EXPECT_EQ(race.run(unlucky), field[0]);
  // Far behind, it is dropped.
  seen.clear();
  EXPECT_EQ(race.run([&](size_t place) {
    ++seen[place];
    return place == 0 ? 200.0 : 100.0 + double(place);
  }),
            field[1]);
  EXPECT_EQ(seen[0], 1);
}

TEST(Search, BudgetIsOfTheClock) {
  FakeRace race(product());
  race.options.budget_ns = 20;
  std::vector<Schedule> field = race.field();
  // Fifteen runs of the first rung, some of the fastest of those again, the last two in turns: the
  // model's pick is one of them.
  EXPECT_EQ(race.run([](size_t place) { return 100.0 - double(place); }), field[14]);
  std::vector<size_t> runs(15);
  std::iota(runs.begin(), runs.end(), size_t{0});
  runs.insert(runs.end(), {14, 13, 14, 0, 14});
  EXPECT_EQ(race.runs, runs);
  race.options.budget_ns = 0;
  EXPECT_EQ(race.run([](size_t) { return 1.0; }), field[0]);
  EXPECT_TRUE(race.runs.empty());
}

TEST(Search, StopsNearTheBoundUnlessItIsNone) {
  FakeRace race(product());
  race.options.bound_ns = 100;
  std::vector<Schedule> field = race.field();
  EXPECT_EQ(race.run([](size_t place) { return place == 4 ? 102.0 : 150.0; }), field[4]);
  EXPECT_EQ(race.runs.size(), 5U);
  // What is far below it shows that it is wrong.
  EXPECT_EQ(race.run([](size_t place) { return place == 4 ? 50.0 : 150.0; }), field[4]);
  EXPECT_GT(race.runs.size(), field.size());
}

TEST(Search, TheBestOfTheNearestShapeTakesPart) {
  Kernel kernel = product(), near = matrix_product(610, 500, 700), far = matrix_product(8, 9, 10);
  Kernel other = row_sum(50, 300, false);
  EXPECT_LT(distance(kernel, near), distance(kernel, far));
  EXPECT_TRUE(std::isinf(distance(kernel, other)));
  EXPECT_EQ(outline(print(kernel)), outline(print(near)));
  FakeRace race(kernel);
  // A schedule that is legal here and among no 36 candidates.
  Schedule known = resized(plain_schedule(near), near, kernel);
  race.options.also = {known, analytic_schedule(other, wide_target())};
  std::vector<Schedule> field = race.field();
  ASSERT_EQ(field.size(), 37U);
  EXPECT_EQ(field[1], known);
  EXPECT_EQ(race.run([](size_t place) { return place == 1 ? 10.0 : 100.0; }), known);
}

TEST(Search, BlocksOfAWholeExtentStayWhole) {
  Kernel from = matrix_product(60, 50, 40), to = matrix_product(61, 48, 40);
  Schedule s = parse_schedule(
      "schedule { stage { piece outer (0:60 serial, 1:16 serial, 0:4 serial) reduce (2:1 serial) "
      "tile (0:1 unroll, 1:1 vector) } }");
  EXPECT_EQ(resized(s, from, to).stages[0][0].outer[0].step, 61);
  EXPECT_EQ(resized(s, from, to).stages[0][0].outer[1].step, 16);
}

TEST(Rates, ReplaceTheModelsConstantsAndNothingElse) {
  MachineRates rates;
  rates.fma_per_ns = {{256, 50}, {512, 130}};
  rates.l2_bytes_per_ns = 210;
  rates.l3_bytes_per_ns = 60;
  rates.dram_bytes_per_ns = 20;
  rates.l3_bytes = 16 << 20;
  Target before = wide_target(), target = before;
  apply(rates, target);
  EXPECT_EQ(target.fma_per_ns, 130);
  EXPECT_EQ(target.dram_bytes_per_ns, 20);
  EXPECT_EQ(target.l3_bytes, 16 << 20);
  EXPECT_NE(to_string(target), to_string(before));
  EXPECT_EQ(to_string(without_rates(target)), to_string(without_rates(before)));
  Target untouched = before;
  apply(MachineRates{}, untouched);
  EXPECT_EQ(to_string(untouched), to_string(before));
}

// What every thread reads again and again stays in the second caches only as far as they keep the
// same data; a private copy, or columns of its own for each thread, may fill them.
TEST(Rates, DataThatAllThreadsReadHaveLessOfTheSecondCache) {
  Kernel kernel = matrix_product(512, 512, 512);
  Target target = wide_target();
  target.threads = 2;
  target.l2_bytes = 2 << 20;
  auto nanoseconds = [&](const std::string& piece, int64_t shared) {
    target.l2_shared_bytes = shared;
    return estimate(parse_schedule("schedule { stage { piece " + piece + " } }"), kernel, target);
  };
  const std::string inner = " reduce (2:1 serial) tile (0:1 unroll, 1:16 unroll, 1:1 vector)";
  const std::string rows = "outer (0:8 parallel, 1:48 serial)" + inner;
  const std::string columns = "outer (1:48 parallel, 0:8 serial)" + inner;
  const std::string copies = "outer (0:256 parallel, 1:48 serial, 0:8 serial)" + inner +
                             " pack 1 level 2 (2:1 serial, 1:1 serial)";
  EXPECT_GT(nanoseconds(rows, 512 << 10), 1.1 * nanoseconds(rows, 2 << 20));
  EXPECT_GT(nanoseconds(rows, 512 << 10), nanoseconds(copies, 512 << 10));
  EXPECT_EQ(nanoseconds(copies, 512 << 10), nanoseconds(copies, 2 << 20));
  target.threads = 1;
  EXPECT_EQ(nanoseconds(rows, 512 << 10), nanoseconds(rows, 2 << 20));
  EXPECT_EQ(nanoseconds(columns, 512 << 10), nanoseconds(columns, 2 << 20));
}

TEST(Rates, BoundIsArithmeticOrMemory) {
  Target target = wide_target();
  target.threads = 2;
  target.l2_bytes = 1 << 20;
  target.l3_bytes = 4 << 20;
  MachineRates rates;
  EXPECT_EQ(bound_ns(matrix_product(64, 64, 64), target, rates), 0);
  rates.fma_per_ns = {{512, 100}};
  rates.dram_bytes_per_ns = 10;
  rates.all_dram_bytes_per_ns = 16;
  EXPECT_DOUBLE_EQ(bound_ns(matrix_product(200, 300, 400), target, rates),
                   200.0 * 300 * 400 / (2 * 100));
  double bytes = 4.0 * (4096.0 * 4096 + 4096);
  EXPECT_NEAR(bound_ns(row_sum(4096, 4096, false), target, rates), bytes / 16, bytes / 160);
  EXPECT_EQ(bound_ns(row_sum(10, 10, false), target, rates), 0);
}

}  // namespace
}  // namespace tile::testing
