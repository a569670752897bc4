// What rows that lie apart take of a cache of several ways.
#include <gtest/gtest.h>

#include "core/schedule/facts/access_block.h"

namespace tile {
namespace {

constexpr double kWay = 4096;

AccessBlock rows_of(double run, double rows, double stride) {
  AccessBlock block;
  block.run = block.exact = run;
  block.rows = rows;
  block.row_strides = {{rows, stride}};
  return block;
}

TEST(AccessBlocks, RowsAPageApartFallOnOneSet) {
  EXPECT_DOUBLE_EQ(rows_of(64, 16, 4096).depth(kWay), 16);
  EXPECT_DOUBLE_EQ(rows_of(64, 3, 7 * 4096).depth(kWay), 3);
  // Two places in turns.
  EXPECT_DOUBLE_EQ(rows_of(64, 16, 2048).depth(kWay), 8);
  EXPECT_DOUBLE_EQ(rows_of(64, 16, 4096).occupied(kWay), 16 * kWay * kUsableCache);
}

TEST(AccessBlocks, OtherRowsTakeAnEvenShare) {
  EXPECT_DOUBLE_EQ(rows_of(64, 16, 4096 + 64).depth(kWay), 16 * 64 / kWay);
  EXPECT_DOUBLE_EQ(rows_of(4096, 3, 4096).depth(kWay), 3);
  EXPECT_DOUBLE_EQ(rows_of(64, 16, 4096 + 64).occupied(kWay), 16 * 64);
}

// The prefetcher follows one run of each page: of four rows in a page that are read in turns one.
TEST(AccessBlocks, RowsOfAPageInTurnsAreOneRun) {
  EXPECT_DOUBLE_EQ(rows_of(64, 4, 1024).runs_in_turns(), 1);
  EXPECT_DOUBLE_EQ(rows_of(64, 4, 65536).runs_in_turns(), 4);
  EXPECT_DOUBLE_EQ(rows_of(64, 4, 1024).runs_ahead(), rows_of(64, 16, 1024).runs_ahead());
}

}  // namespace
}  // namespace tile
