#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "runtime/engine/concurrency/parallel_for.h"

namespace tile {
namespace {

TEST(SideBySide, CountsTheProcessorsThatItMayUse) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(processors(), static_cast<size_t>(CPU_COUNT(&before)));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (size_t cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(processors(), 1U);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(SideBySide, DoesEachThingOnce) {
  std::vector<std::atomic<int>> done(100);
  parallel_for(done.size(), [&](size_t i) { ++done[i]; });
  for (const auto& times : done) EXPECT_EQ(times, 1);
}

TEST(SideBySide, ThrowsWhatWasThrown) {
  auto fails = [](size_t i) {
    if (i == 3) throw std::runtime_error("the third");
  };
  EXPECT_THROW(parallel_for(8, fails), std::runtime_error);
}

}  // namespace
}  // namespace tile
