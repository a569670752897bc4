// Races of ways to run a loop's trips, on a clock of ours.
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "runtime/engine/steps/way_race.h"
#include "tests/random/random_source.h"

namespace tile::test {
namespace {

constexpr int64_t kGroup = 8;

// Nanoseconds of a trip by each way, at a time that counts trips.
using Clock = std::function<double(size_t way, int64_t trip)>;

struct Ran {
  double ns = 0;
  std::vector<int64_t> trips;  // by way
};

// One run of so many trips, as run_trips() makes it.
void run(WayRace& race, int64_t trips, const Clock& clock, int64_t& now, Ran& ran) {
  for (int64_t first = 0; first < trips;) {
    bool timed = first > 0 && trips - first >= kGroup;
    size_t way = timed ? race.next(kGroup, trips - first) : race.chosen();
    int64_t count = std::min(kGroup, trips - first);
    double ns = static_cast<double>(count) * clock(way, now);
    if (timed) {
      race.ran(way, count, ns);
    } else {
      race.untimed(count);
    }
    ran.ns += ns;
    ran.trips[way] += count;
    now += count;
    first += count;
  }
}
Ran one_run(WayRace& race, size_t ways, int64_t trips, const Clock& clock) {
  Ran ran{0, std::vector<int64_t>(ways)};
  int64_t now = 0;
  run(race, trips, clock, now, ran);
  return ran;
}

Clock noisy(std::vector<double> times, double noise, uint64_t seed) {
  auto random = std::make_shared<RandomSource>(seed);
  return [=](size_t way, int64_t) {
    return times[way] * (1 + noise * static_cast<double>(random->in(0, 1000)) / 1000);
  };
}

TEST(WayRace, TakesTheFastest) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    WayRace race(3);
    Ran ran = one_run(race, 3, 10'000, noisy({100, 80, 60}, 0.05, seed));
    EXPECT_EQ(race.chosen(), 2U);
    EXPECT_GT(ran.trips[2], 9'000);
    ASSERT_TRUE(race.verdict().has_value());
    EXPECT_EQ(race.verdict()->ns.size(), 3U);
  }
}

TEST(WayRace, LosesLittleWhereStepsAreFastest) {
  for (double slower : {0.97, 1.0, 1.1, 1.45, 3.0}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Clock clock = noisy({100, 100 * slower, 100 * slower}, 0.04, seed);
      WayRace race(3), alone(1);
      double ns = one_run(race, 3, 20'000, clock).ns, plain = one_run(alone, 1, 20'000, clock).ns;
      EXPECT_LT(ns, 1.03 * plain) << slower << ", seed " << seed;
    }
  }
}

TEST(WayRace, ADisturbedOneIsNotTheLast) {
  // While the first race is run something else slows the faster way down.
  Clock clock = [](size_t way, int64_t trip) {
    return way == 0 ? 100.0 : trip < 200 ? 400.0 : 50.0;
  };
  WayRace race(2);
  Ran ran{0, {0, 0}};
  int64_t now = 0;
  run(race, 150, clock, now, ran);
  EXPECT_EQ(race.chosen(), 0U);
  for (int i = 0; i < 200; ++i) run(race, 100, clock, now, ran);
  EXPECT_EQ(race.chosen(), 1U);
  // The other way round: a way that was chosen wrongly is left again.
  Clock other = [](size_t way, int64_t trip) {
    return way == 0 ? (trip < 200 ? 400.0 : 50.0) : 100.0;
  };
  WayRace second(2);
  now = 0;
  run(second, 150, other, now, ran);
  EXPECT_EQ(second.chosen(), 1U);
  for (int i = 0; i < 200; ++i) run(second, 100, other, now, ran);
  EXPECT_EQ(second.chosen(), 0U);
}

TEST(WayRace, ShortRunsDecideTogether) {
  WayRace race(2);
  Ran ran{0, {0, 0}};
  int64_t now = 0;
  run(race, 20, noisy({100, 50}, 0, 1), now, ran);
  EXPECT_EQ(ran.trips[1], 0) << "too short for a race";
  for (int i = 0; i < 30; ++i) run(race, 20, noisy({100, 50}, 0, 1), now, ran);
  EXPECT_EQ(race.chosen(), 1U);
}

TEST(WayRace, OfRunsAtATime) {
  WayRace race(3);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&race, t] {
      for (int i = 0; i < 20; ++i) one_run(race, 3, 1'000, noisy({100, 120, 50}, 0.05, t));
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(race.chosen(), 2U);
}

}  // namespace
}  // namespace tile::test
