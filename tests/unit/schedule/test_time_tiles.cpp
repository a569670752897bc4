// Blocks in space and time: every turn of every iteration is done once, after what it reads and
// before that is overwritten, whatever the order of the pieces of a phase.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/schedule/cost/time_tiles.h"
#include "tests/random/random_source.h"

namespace tile::test {
namespace {

TiledDimension random_dimension(RandomSource& random, int64_t turns) {
  TiledDimension d;
  d.reach = random.in(0, 3);
  d.wraps = random.in(0, 1) == 1;
  d.blocks = random.in(1, 4);
  int64_t least = std::max<int64_t>(1, 2 * (turns - 1) * d.reach) + random.in(0, 3);
  d.iterations = least * d.blocks + random.in(0, d.blocks - 1);
  return d;
}

TimeTiles random_tiles(RandomSource& random) {
  TimeTiles tiles;
  tiles.turns = random.in(2, 5);
  for (int64_t n = random.in(1, 2); n > 0; --n) {
    tiles.dimensions.push_back(random_dimension(random, tiles.turns));
  }
  return tiles;
}

// Two states, of which each iteration's cell holds how many turns it has behind it.
class Loop {
 public:
  explicit Loop(const TimeTiles& tiles) : tiles_(tiles) {
    rows_ = tiles.dimensions[0].iterations;
    columns_ = tiles.dimensions.size() > 1 ? tiles.dimensions[1].iterations : 1;
    for (std::vector<int64_t>& state : states_) {
      state.assign(static_cast<size_t>(rows_ * columns_), -1);
    }
    std::fill(states_[0].begin(), states_[0].end(), 0);
  }

  void turn(int64_t number, IterationSpan rows, IterationSpan columns) {
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      for (int64_t j = columns.begin; j < columns.end; ++j) {
        ASSERT_NO_FATAL_FAILURE(cell(number, i, j));
      }
    }
  }
  void expect_done(int64_t turns) const {
    for (int64_t cell : states_[static_cast<size_t>(turns % 2)]) ASSERT_EQ(cell, turns);
  }

 private:
  static int64_t inside(int64_t i, int64_t extent, bool wraps) {
    return wraps ? (i % extent + extent) % extent : i;
  }
  int64_t& at(int64_t number, int64_t i, int64_t j) {
    bool wraps = tiles_.dimensions.size() > 1 && tiles_.dimensions[1].wraps;
    int64_t row = inside(i, rows_, tiles_.dimensions[0].wraps), column = inside(j, columns_, wraps);
    return states_[static_cast<size_t>(number % 2)][static_cast<size_t>(row * columns_ + column)];
  }
  // Neighbours along a dimension, of those that there are.
  IterationSpan near(size_t along, int64_t i, int64_t extent) const {
    if (along >= tiles_.dimensions.size()) return {i, i + 1};
    const TiledDimension& d = tiles_.dimensions[along];
    if (d.wraps) return {i - d.reach, i + d.reach + 1};
    return {std::max<int64_t>(0, i - d.reach), std::min(extent, i + d.reach + 1)};
  }
  void cell(int64_t number, int64_t i, int64_t j) {
    IterationSpan rows = near(0, i, rows_), columns = near(1, j, columns_);
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      for (int64_t x = columns.begin; x < columns.end; ++x) {
        ASSERT_EQ(at(number, y, x), number) << "read by " << i << ", " << j;
      }
    }
    ASSERT_LE(at(number + 1, i, j), number - 1) << "done twice";
    at(number + 1, i, j) = number + 1;
  }

  const TimeTiles& tiles_;
  int64_t rows_ = 1, columns_ = 1;
  std::vector<int64_t> states_[2];
};

// Turns 0 … count - 1 of `pieces` pieces, those of different pieces in any order.
template <class Do>
void in_any_order(RandomSource& random, int64_t pieces, int64_t count, const Do& next) {
  std::vector<int64_t> done(static_cast<size_t>(pieces), 0);
  for (int64_t left = pieces * count; left > 0;) {
    auto piece = static_cast<size_t>(random.in(0, pieces - 1));
    if (done[piece] == count) continue;
    next(static_cast<int64_t>(piece), done[piece]++);
    --left;
  }
}

TEST(TimeTiles, TurnsReadTheTurnBefore) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    RandomSource random(seed);
    TimeTiles tiles = random_tiles(random);
    SCOPED_TRACE(std::to_string(seed) + ": " + print(tiles, 1));
    ASSERT_TRUE(is_sound(tiles));
    Loop loop(tiles);
    int64_t turns = random.in(1, 11);
    for (int64_t first = 0; first < turns; first += tiles.turns) {
      int64_t count = std::min(tiles.turns, turns - first);
      for (size_t phase = 0; phase < tiles.phases(); ++phase) {
        in_any_order(random, tiles.pieces(phase), count, [&](int64_t piece, int64_t turn) {
          IterationSpan columns{0, 1};
          if (tiles.dimensions.size() > 1) columns = span_of(tiles, phase, piece, turn, 1);
          loop.turn(first + turn, span_of(tiles, phase, piece, turn, 0), columns);
        });
        ASSERT_FALSE(HasFatalFailure());
      }
    }
    loop.expect_done(turns);
  }
}

TEST(TimeTiles, AreSoundOrNone) {
  Target target;
  for (int64_t iterations : {1, 2, 7, 128, 4096}) {
    for (int64_t columns : {1, 5, 64, 1000}) {
      for (int64_t reach : {0, 1, 2, 64, 4096}) {
        for (int64_t bytes : {1, 1 << 16, 1 << 24, 1 << 30}) {
          for (int threads : {1, 2, 7, 64}) {
            target.threads = threads;
            TiledDimension rows{iterations, reach, reach % 2 == 1, 1};
            TiledDimension across{columns, std::min<int64_t>(reach, 1), false, 1};
            for (const auto& grid : {std::vector{rows}, std::vector{rows, across}}) {
              for (const TimeTiles& tiles : time_tiles(grid, 1, 1000, bytes, target)) {
                EXPECT_TRUE(is_sound(tiles)) << print(tiles, 1);
                EXPECT_GE(tiles.pieces(0), threads) << print(tiles, 1);
                EXPECT_LE(bytes / tiles.pieces(0), target.l3_bytes) << print(tiles, 1);
              }
            }
          }
        }
      }
    }
  }
}

TEST(TimeTiles, AreThereWhereTheyMayPay) {
  Target target;
  auto count = [&](TiledDimension d, int64_t turns, int64_t trips, int64_t bytes) {
    return time_tiles({d}, turns, trips, bytes, target).size();
  };
  EXPECT_GT(count({1024, 1, false, 1}, 1, 100, 1 << 24), 0U);
  EXPECT_GT(count({1024, 1, true, 1}, 2, 100, 1 << 24), 0U) << "two turns in each trip";
  EXPECT_EQ(count({1024, 1, false, 1}, 1, 2, 1 << 24), 0U) << "too few trips";
  EXPECT_EQ(count({1024, 1, false, 1}, 1, 100, 1 << 16), 0U) << "stays in the cache anyway";
  EXPECT_EQ(count({128, 128, false, 1}, 1, 100, 1 << 24), 0U) << "reaches everything";
  EXPECT_EQ(count({2, 1, false, 1}, 1, 100, 1 << 24), 0U) << "too coarse";
}

TEST(TimeTiles, WhatRecordsSayIsLookedAt) {
  EXPECT_TRUE(is_sound({{{128, 1, false, 4}}, 16}));
  for (const TimeTiles& wrong : {
           TimeTiles{{}, 16},
           TimeTiles{{{128, 1, false, 4}, {128, 1, false, 4}, {128, 1, false, 4}}, 16},
           TimeTiles{{{0, 1, false, 4}}, 16},
           TimeTiles{{{128, -1, false, 4}}, 16},
           TimeTiles{{{128, 1, false, 0}}, 16},
           TimeTiles{{{128, 1, false, 129}}, 16},
           TimeTiles{{{128, 1, false, 5}}, 16},
           TimeTiles{{{128, 1, false, 4}}, 1},
           TimeTiles{{{128, INT64_MAX, false, 4}}, 16},
           TimeTiles{{{INT64_MAX, 0, false, 4}}, 16},
           TimeTiles{{{128, 0, false, 4}}, INT64_MAX},
       }) {
    EXPECT_FALSE(is_sound(wrong));
  }
}

}  // namespace
}  // namespace tile::test
