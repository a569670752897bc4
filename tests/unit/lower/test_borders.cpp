// Tiles at a border of a padded tensor: code without the rows that some taps do not reach, instead
// of a test of each point in the innermost loop.
#include <gtest/gtest.h>

#include "core/kernel/geometry.h"
#include "core/nest/passes/nest_passes.h"
#include "core/schedule/legality/legality.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

// The tile has `rows` positions along x (iterator 2 of n, y, x, co) and all output channels.
Schedule along_x(const Kernel& kernel, int64_t rows) {
  const Piece& piece = kernel.stages[0].contraction.pieces[0];
  PieceSchedule s = plain_schedule(piece);
  for (Loop& l : s.outer) {
    if (l.iterator == IteratorId(2)) l.step = rows;
    if (l.iterator == IteratorId(3)) l.step = piece.box[3];
  }
  s.tile = {{IteratorId(2), 1, Binding::unroll}, {IteratorId(3), 1, Binding::vector}};
  Schedule schedule;
  schedule.stages = {{s}};
  return schedule;
}

size_t count(const std::string& text, const std::string& part) {
  size_t times = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

TEST(Borders, RowsThatTapsDoNotReachAreLeftOut) {
  Target target = wide_target();
  for (auto [size, taps, stride, pad, rows] :
       std::vector<std::array<int64_t, 5>>{{14, 3, 1, 1, 7},
                                           {14, 7, 2, 3, 4},
                                           {9, 3, 1, 1, 4},  // a rest of one row
                                           {5, 5, 1, 2, 5},  // one tile, both its ends
                                           {3, 7, 1, 3, 3},  // more rows missing than have code
                                           {8, 3, 1, 1, 2}}) {
    Kernel kernel = convolution(2, size, 3, 8, taps, stride, pad);
    Values inputs = small_integers(kernel, 3), expected = inputs;
    brute_force(kernel, expected);
    Schedule schedule = along_x(kernel, rows);
    ASSERT_EQ(illegal(schedule, kernel, target), "");
    expect_schedule_agrees(kernel, schedule, target, inputs, expected);
  }
}

TEST(Borders, OneTileForEachNumberOfMissingRows) {
  Target target = wide_target();
  auto text = [&](int64_t taps, int64_t stride, int64_t pad) {
    Kernel kernel = convolution(1, 56, 16, 16, taps, stride, pad);
    return nest::print(nest::run_passes(lower(kernel, along_x(kernel, 7), target), target));
  };
  std::string three = text(3, 1, 1);
  EXPECT_EQ(count(three, "x_1 from [1] extent [6]"), 1U) << three;
  EXPECT_EQ(count(three, "x_1 from [0] extent [6]"), 1U) << three;
  // Of seven taps with stride two, two rows at the first end and one at the last.
  std::string seven = text(7, 2, 3);
  EXPECT_EQ(count(seven, "x_1 from [2] extent [5]"), 1U) << seven;
  EXPECT_EQ(count(seven, "x_1 from [0] extent [5]"), 0U) << seven;
  EXPECT_EQ(count(text(3, 1, 0), "extent [6]"), 0U);  // no border
}

// What the conditions around it say decides a branch: a tile at the first end is not at the last,
// nor has it rows that each are tested, and the rest of a row, at the last end, has no whole
// window.
TEST(Borders, BranchesThatNoTileReachesHaveNoCode) {
  Kernel kernel = convolution(1, 28, 16, 16, 3, 1, 1);
  Target target = wide_target();
  std::string six =
      nest::print(nest::run_passes(lower(kernel, along_x(kernel, 6), target), target));
  EXPECT_EQ(count(six, "x_1 from [1] extent [5]"), 1U) << six;  // the first end
  EXPECT_EQ(count(six, "x_1 from [0] extent [5]"), 0U) << six;
  EXPECT_EQ(count(six, "x_1 from [0] extent [3]"), 1U) << six;  // the last end, of the rest
  EXPECT_EQ(count(six, "x_1 from [1] extent [3]"), 0U) << six;
  EXPECT_EQ(count(six, "fma "), 4U) << six;
}

// A tile that is tested once for each tap has no second body for the interior where many channels
// are summed for each test, and has one where few are.
TEST(Borders, OneBodyWhereTestsAreRare) {
  Target target = wide_target();
  auto bodies = [&](int64_t channels) {
    Kernel kernel = convolution(1, 28, channels, 16, 3, 1, 1);
    return count(nest::print(nest::run_passes(lower(kernel, along_x(kernel, 7), target), target)),
                 "alloc ");
  };
  EXPECT_EQ(bodies(512), 1U);
  EXPECT_EQ(bodies(4), 2U);
}

}  // namespace
}  // namespace tile::testing
