// Blocks in space and time: every trip of every iteration is done once, after what it reads and
// before that is overwritten, whatever the order of blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/schedule/cost/time_tiles.h"
#include "tests/random/random_source.h"

namespace tile::test {
namespace {

TimeTiles random_tiles(RandomSource& random) {
  TimeTiles tiles;
  tiles.trips = random.in(2, 6);
  tiles.reach = random.in(0, 3);
  tiles.block = std::max<int64_t>(1, 2 * tiles.trips * tiles.reach) + random.in(0, 5);
  tiles.iterations = tiles.block * random.in(1, 5) + random.in(0, tiles.block - 1);
  return tiles;
}

// Two states, of which each iteration's cell holds how many trips it has behind it.
class Loop {
 public:
  explicit Loop(const TimeTiles& tiles) : tiles_(tiles) {
    for (std::vector<int64_t>& state : states_) {
      state.assign(static_cast<size_t>(tiles.iterations), -1);
    }
    std::fill(states_[0].begin(), states_[0].end(), 0);
  }

  void trip(int64_t number, IterationSpan span) {
    const std::vector<int64_t>& from = states_[static_cast<size_t>(number % 2)];
    std::vector<int64_t>& to = states_[static_cast<size_t>((number + 1) % 2)];
    for (int64_t i = span.begin; i < span.end; ++i) {
      int64_t first = std::max<int64_t>(0, i - tiles_.reach),
              last = std::min(tiles_.iterations - 1, i + tiles_.reach);
      for (int64_t j = first; j <= last; ++j) {
        ASSERT_EQ(from[static_cast<size_t>(j)], number) << "read by " << i;
      }
      ASSERT_LE(to[static_cast<size_t>(i)], number - 1) << "done twice";
      to[static_cast<size_t>(i)] = number + 1;
    }
  }
  void expect_done(int64_t trips) const {
    for (int64_t cell : states_[static_cast<size_t>(trips % 2)]) ASSERT_EQ(cell, trips);
  }

 private:
  const TimeTiles& tiles_;
  std::vector<int64_t> states_[2];
};

// Trips 0 … count - 1 of `parts` parts, those of different parts in any order.
template <class Do>
void in_any_order(RandomSource& random, int64_t parts, int64_t count, const Do& next) {
  std::vector<int64_t> done(static_cast<size_t>(std::max<int64_t>(0, parts)), 0);
  for (int64_t left = parts * count; left > 0;) {
    auto part = static_cast<size_t>(random.in(0, parts - 1));
    if (done[part] == count) continue;
    next(static_cast<int64_t>(part), done[part]++);
    --left;
  }
}

TEST(TimeTiles, TripsReadTheTripBefore) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    RandomSource random(seed);
    TimeTiles tiles = random_tiles(random);
    SCOPED_TRACE(std::to_string(seed) + ": " + print(tiles));
    ASSERT_TRUE(is_sound(tiles));
    Loop loop(tiles);
    int64_t trips = random.in(1, 14);
    for (int64_t first = 0; first < trips; first += tiles.trips) {
      int64_t count = std::min(tiles.trips, trips - first);
      in_any_order(random, tiles.blocks(), count, [&](int64_t block, int64_t t) {
        loop.trip(first + t, of_block(tiles, block, t));
      });
      in_any_order(random, tiles.blocks() - 1, count, [&](int64_t edge, int64_t t) {
        loop.trip(first + t, around_edge(tiles, edge + 1, t));
      });
      ASSERT_FALSE(HasFatalFailure());
    }
    loop.expect_done(trips);
  }
}

TEST(TimeTiles, AreSoundOrNone) {
  Target target;
  for (int64_t iterations : {1, 2, 7, 128, 4096}) {
    for (int64_t reach : {0, 1, 2, 64, 4096}) {
      for (int64_t bytes : {1, 1 << 16, 1 << 24, 1 << 30}) {
        for (int threads : {1, 2, 64}) {
          target.threads = threads;
          auto tiles = time_tiles({iterations, reach}, 1000, bytes, target);
          if (!tiles) continue;
          EXPECT_TRUE(is_sound(*tiles)) << print(*tiles);
          EXPECT_GE(tiles->blocks(), threads) << print(*tiles);
          EXPECT_LE(tiles->block * (bytes / iterations), target.l2_bytes) << print(*tiles);
        }
      }
    }
  }
  EXPECT_TRUE(time_tiles({128, 1}, 100, 1 << 24, target = Target{}).has_value());
  EXPECT_FALSE(time_tiles({128, 128}, 100, 1 << 24, target).has_value()) << "reaches everything";
  EXPECT_FALSE(time_tiles({2, 1}, 100, 1 << 24, target).has_value()) << "too coarse";
}

TEST(TimeTiles, WhatRecordsSayIsLookedAt) {
  EXPECT_TRUE(is_sound({128, 1, 32, 16}));
  for (TimeTiles wrong :
       {TimeTiles{0, 1, 32, 16}, TimeTiles{128, -1, 32, 16}, TimeTiles{128, 1, 0, 16},
        TimeTiles{128, 1, 129, 16}, TimeTiles{128, 1, 31, 16}, TimeTiles{128, 1, 32, 1},
        TimeTiles{128, INT64_MAX, 32, 16}, TimeTiles{128, 0, 32, INT64_MAX}}) {
    EXPECT_FALSE(is_sound(wrong)) << print(wrong);
  }
}

}  // namespace
}  // namespace tile::test
