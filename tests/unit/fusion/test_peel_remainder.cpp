// The last cells of a product's rows as a piece of their own, done in the first piece's tasks.
#include <gtest/gtest.h>

#include "core/fusion/peel_remainder.h"
#include "core/lower/lower.h"
#include "core/schedule/cost/task_sharing.h"
#include "core/schedule/space/candidates.h"
#include "core/schedule/space/shared_parallel_loops.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

Kernel divided(Kernel kernel, const Target& target) {
  peel_remainder(kernel, target);
  return kernel;
}
size_t piece_count(const Kernel& kernel) { return kernel.stages[0].contraction.pieces.size(); }

TEST(PeelRemainder, FewCellsAfterWholeVectorsOnly) {
  Target one = wide_target();
  one.threads = 1;
  EXPECT_EQ(piece_count(divided(matrix_product(512, 97, 128), one)), 2U);
  EXPECT_EQ(piece_count(divided(matrix_product(512, 98, 128), one)), 2U);
  for (const Target& target : {one, wide_target()}) {
    EXPECT_EQ(piece_count(divided(matrix_product(512, 65, 128), target)), 2U);
    EXPECT_EQ(piece_count(divided(matrix_product(512, 64, 128), target)), 1U);
    EXPECT_EQ(piece_count(divided(matrix_product(512, 72, 128), target)), 1U);  // half a vector
    EXPECT_EQ(piece_count(divided(matrix_product(512, 3, 128), target)), 1U);   // no whole one
    EXPECT_EQ(piece_count(divided(row_sum(64, 65, true), target)), 1U);
    EXPECT_EQ(piece_count(divided(transpose(65, 65), target)), 1U);
    EXPECT_EQ(piece_count(divided(matrix_bias_gelu(64, 65, 64), target)), 1U);  // an epilogue
  }
}

TEST(PeelRemainder, PiecesCoverTheResult) {
  Kernel kernel = divided(matrix_product(40, 18, 64), wide_target());
  ASSERT_EQ(piece_count(kernel), 2U);
  verify(kernel);
  EXPECT_EQ(kernel.stages[0].contraction.pieces[0].box, (std::vector<int64_t>{40, 16, 64}));
  EXPECT_EQ(kernel.stages[0].contraction.pieces[1].box, (std::vector<int64_t>{40, 2, 64}));
}

TEST(PeelRemainder, EveryScheduleAgrees) {
  for (auto [m, n, k] : {std::tuple{9, 17, 40}, {33, 34, 7}, {24, 65, 20}}) {
    Kernel kernel = matrix_product(m, n, k);
    for (const Target& target : {small_target(), wide_target()}) {
      Kernel parts = divided(kernel, target);
      expect_all_schedules_agree(parts, 12);
      Values inputs = small_integers(parts, 3), expected = inputs;
      brute_force(parts, expected);
      for (const Schedule& s : candidates(parts, target, 12)) {
        expect_schedule_agrees(parts, s, target, inputs, expected);
      }
    }
  }
}

// Another order of the same rows would have two threads write one line of the result in turns.
TEST(PeelRemainder, EdgesAreDoneInTheTasksOfTheirRows) {
  Target target = wide_target();
  target.threads = 2;
  Kernel kernel = divided(matrix_product(256, 65, 256), target);
  ASSERT_EQ(piece_count(kernel), 2U);
  Schedule best = analytic_schedule(kernel, target);
  const std::vector<Piece>& pieces = kernel.stages[0].contraction.pieces;
  ASSERT_EQ(best.stages[0][0].outer[0].binding, Binding::parallel);
  EXPECT_TRUE(share_tasks(best.stages[0][0], best.stages[0][1], pieces[0], pieces[1]));
  std::string nest = nest::print(lower(kernel, best, target));
  size_t tasks = nest.find("parallel task");
  ASSERT_NE(tasks, std::string::npos);
  EXPECT_EQ(nest.find("parallel task", tasks + 1), std::string::npos) << nest;
}

// In each task a panel of columns may pass by all of its rows before the next one does.
TEST(PeelRemainder, TasksMayHaveTheirRowsInnermost) {
  Target target = wide_target();
  target.threads = 2;
  Kernel kernel = divided(matrix_product(128, 129, 128), target);
  std::vector<Schedule> all = candidates(kernel, target, 36);
  bool found = std::any_of(all.begin(), all.end(), [](const Schedule& s) {
    const std::vector<Loop>& outer = s.stages[0][0].outer;
    return outer.size() == 3 && outer[0].iterator == IteratorId(0) &&
           outer[1].iterator == IteratorId(1) && outer[2].iterator == IteratorId(0) &&
           outer[0].binding == Binding::parallel;
  });
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace tile::testing
