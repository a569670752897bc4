// How threads share the iterations of a parallel loop.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "backends/cpu/launch/work_stealing_range.h"

namespace tile::cpu {
namespace {

// Marks the iterations of a run; how many have been marked before.
int64_t mark(std::vector<std::atomic<int>>& seen, WorkStealingRange::Run run) {
  int64_t twice = 0;
  for (int64_t i = run.begin; i < run.end; ++i) twice += seen[static_cast<size_t>(i)]++;
  return twice;
}

TEST(WorkStealingRange, EveryIterationOnceByAnyWorkers) {
  for (int64_t extent : {1, 2, 3, 7, 64, 1000, 4099}) {
    for (int64_t workers : {1, 2, 3, 5, 40}) {
      for (int64_t least : {1, 3, 100}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(extent));
        std::atomic<int64_t> twice{0};
        WorkStealingRange shares(extent, workers, least);
        std::vector<std::jthread> threads;
        for (int64_t w = 0; w < workers; ++w) {
          threads.emplace_back([&, w] {
            while (auto run = shares.take(w)) twice += mark(seen, *run);
          });
        }
        threads.clear();
        EXPECT_EQ(twice, 0);
        for (const auto& n : seen) EXPECT_EQ(n, 1) << extent << ' ' << workers << ' ' << least;
      }
    }
  }
}

TEST(WorkStealingRange, AWorkerTakesItsOwnShareFirstFromTheFront) {
  WorkStealingRange shares(100, 2, 1);
  int64_t next = 50;
  while (next < 100) {
    WorkStealingRange::Run run = *shares.take(1);
    EXPECT_EQ(run.begin, next);
    EXPECT_GT(run.end, run.begin);
    next = run.end;
  }
  EXPECT_EQ(shares.take(1)->end, 50);  // then the other's, from its back
}

TEST(WorkStealingRange, OneWorkerDoesAllWhenNoOtherComes) {
  WorkStealingRange shares(1000, 4, 1);
  int64_t done = 0, runs = 0;
  for (; auto run = shares.take(2); ++runs) done += run->end - run->begin;
  EXPECT_EQ(done, 1000);
  EXPECT_LT(runs, 120);  // runs shrink with what is left, not one iteration each
}

TEST(WorkStealingRange, RunsHaveTheLeastIterationsThatAreAskedFor) {
  WorkStealingRange shares(1000, 2, 90);
  for (int64_t left = 1000; auto run = shares.take(0);) {
    int64_t share = left > 500 ? left - 500 : left;
    EXPECT_GE(run->end - run->begin, std::min<int64_t>(90, share));
    left -= run->end - run->begin;
  }
}

TEST(WorkStealingRange, ExtentsBeyond32Bits) {
  constexpr int64_t kExtent = (int64_t{1} << 62) + 12345;
  WorkStealingRange shares(kExtent, 3, int64_t{1} << 59);
  int64_t done = 0, last = 0;
  while (auto run = shares.take(0)) {
    EXPECT_LT(run->begin, run->end);
    done += run->end - run->begin;
    last = std::max(last, run->end);
  }
  EXPECT_EQ(done, kExtent);
  EXPECT_EQ(last, kExtent);
}

}  // namespace
}  // namespace tile::cpu
