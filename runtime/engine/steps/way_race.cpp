#include "runtime/engine/steps/way_race.h"

#include <algorithm>

namespace tile {
namespace {

// Groups of each way in a race.
constexpr int kGroups = 3;
// The share of way 0's time that another way may take at most: times differ by some hundredths from
// group to group.
constexpr double kClearly = 0.94;
// A way that takes so many times as long leaves the race.
constexpr double kFarBehind = 1.2;
// A race begins where there are so many times a group's trips behind and before it: way 0 takes
// most of them if it is the fastest.
constexpr int64_t kWorthARace = 12;
// So many times a race's trips pass before the next one, then twice as many, up to the most.
constexpr int64_t kBetweenRaces = 50;
constexpr int64_t kMostBetween = int64_t{1} << 16;

}  // namespace

size_t WayRace::next(int64_t group, int64_t left) {
  std::lock_guard lock(mutex_);
  if (!racing_) {
    auto ways = static_cast<int64_t>(times_.size());
    bool due = ways > 1 && pause_ <= 0 && seen_ + left >= kWorthARace * group;
    if (!due) return chosen_;
    begin();
  }
  return least_tried();
}

void WayRace::begin() {
  std::fill(times_.begin(), times_.end(), Times{});
  racing_ = true;
  raced_ = 0;
}

void WayRace::untimed(int64_t trips) {
  std::lock_guard lock(mutex_);
  pass(trips);
}

// Trips outside races.
void WayRace::pass(int64_t trips) {
  seen_ += trips;
  pause_ -= std::min(pause_, trips);
}

size_t WayRace::chosen() const {
  std::lock_guard lock(mutex_);
  return chosen_;
}

std::optional<WayRace::Verdict> WayRace::verdict() const {
  std::lock_guard lock(mutex_);
  return verdict_;
}

// The first way of those that have had the fewest groups.
size_t WayRace::least_tried() const {
  size_t first = 0;
  for (size_t w = 0; w < times_.size(); ++w) {
    if (!times_[w].left && times_[w].groups < times_[first].groups) first = w;
  }
  return first;
}

bool WayRace::ran(size_t way, int64_t trips, double ns) {
  std::lock_guard lock(mutex_);
  if (!racing_) {
    pass(trips);
    return false;
  }
  seen_ += trips;
  raced_ += trips;
  Times& mine = times_[way];
  double each = ns / static_cast<double>(std::max<int64_t>(1, trips));
  mine.least = mine.groups == 0 ? each : std::min(mine.least, each);
  ++mine.groups;
  const Times& plain = times_[0];
  if (way != 0 && plain.groups > 0 && mine.least > kFarBehind * plain.least) mine.left = true;
  if (!is_over()) return false;
  decide();
  return true;
}

bool WayRace::is_over() const {
  bool alone = std::all_of(times_.begin() + 1, times_.end(), [](const Times& t) { return t.left; });
  return alone || std::all_of(times_.begin(), times_.end(),
                              [](const Times& t) { return t.left || t.groups >= kGroups; });
}

void WayRace::decide() {
  size_t best = 0;
  for (size_t w = 1; w < times_.size(); ++w) {
    if (times_[w].groups == 0) continue;
    if (best == 0 || times_[w].least < times_[best].least) best = w;
  }
  const Times& plain = times_[0];
  bool clear = best != 0 && !times_[best].left && times_[best].least < kClearly * plain.least;
  verdict_ = Verdict{clear ? best : 0, {}};
  for (const Times& t : times_) verdict_->ns.push_back(t.least);
  bool again = times_apart_ > 0 && verdict_->way == chosen_;
  times_apart_ = again ? std::min(2 * times_apart_, kMostBetween) : kBetweenRaces;
  pause_ = raced_ * times_apart_;
  chosen_ = verdict_->way;
  racing_ = false;
}

}  // namespace tile
