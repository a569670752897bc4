// Which of several ways to run a loop's trips is the fastest: found out while trips are run, which
// all ways compute alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace tile {

// Way 0 is what is done unless another one is clearly faster. Trips are run in groups: each asks
// for its way and then tells the time that it took. In a race ways take turns; a way that is far
// behind leaves it, and the winner is kept for the groups that follow, of later runs as well. Races
// are repeated, more and more rarely, so that one which something else disturbed does not count for
// ever; they take about a hundredth of the trips. Thread safe.
class WayRace {
 public:
  explicit WayRace(size_t ways) : times_(ways) {}

  // The way for the next group of `group` trips, of a run with `left` trips still to do. Short
  // loops run no race until what was run before makes up for it.
  size_t next(int64_t group, int64_t left);
  // A group of `trips` trips took `ns` nanoseconds. True: a race has ended with it.
  bool ran(size_t way, int64_t trips, double ns);

  size_t chosen() const;  // the way outside races
  // Trips that were not timed: they count for when races are run.
  void untimed(int64_t trips);

  struct Verdict {
    size_t way = 0;          // the winner
    std::vector<double> ns;  // of a trip, the least that each way took; 0: it was not tried
  };
  // Of the last race; nullopt: there was none yet.
  std::optional<Verdict> verdict() const;

 private:
  struct Times {
    double least = 0;  // nanoseconds of a trip
    int groups = 0;
    bool left = false;  // the race
  };
  void begin();
  void pass(int64_t trips);
  bool is_over() const;
  void decide();
  size_t least_tried() const;

  mutable std::mutex mutex_;
  std::vector<Times> times_;
  bool racing_ = false;
  size_t chosen_ = 0;
  int64_t seen_ = 0;         // trips
  int64_t raced_ = 0;        // of the race
  int64_t pause_ = 0;        // until the next race
  int64_t times_apart_ = 0;  // of a race's trips, until the next one
  std::optional<Verdict> verdict_;
};

}  // namespace tile
