// The analytic model's traffic between the levels of memory: how often the loops of a schedule
// bring in the block that each access touches.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/schedule/cost/cost.h"

namespace tile {

// The loops of a piece, outermost first, their trips, and the range of every iterator around each
// of them and inside the last.
class LoopRanges {
 public:
  LoopRanges(const Piece& piece, const PieceSchedule& s);

  size_t count() const { return loops_.size(); }
  const Loop& loop(size_t i) const { return *loops_[i]; }
  double trips(size_t i) const { return trips_[i]; }
  Range at(size_t level) const { return Range(ranges_).subspan(level * iterators_, iterators_); }

 private:
  size_t iterators_;
  std::vector<const Loop*> loops_;
  std::vector<double> trips_;
  std::vector<int64_t> ranges_;
};

// Both references must outlive it. Not for several threads.
class Traffic {
 public:
  Traffic(const PieceModel& model, const PieceSchedule& schedule);

  // Nanoseconds that data take to come into a cache of `bytes` from the level behind it.
  double memory_ns(int64_t bytes, double ways, double rate);
  // The same of translations of addresses.
  double translation_ns();
  // Lines that the hardware fetches ahead along the rows of one tile, for the tile beside it, are
  // lost where the rows share the sets of the first cache: each is fetched twice. Of reductions
  // that read each element once; others are held by their blocks.
  double crowded_ns();

 private:
  template <class Held, class Moved>
  double between(double capacity, const Held& held, const Moved& moved);
  const AccessBlock& block(size_t access, size_t level);
  AccessBlock block_in(size_t access, size_t level, Range range) const;
  AccessBlock walked_block(size_t access, size_t level);
  bool shares_lines(size_t access, size_t level);
  double moved_bytes(size_t access, size_t level, bool behind);
  double fresh_part(size_t access, size_t level) const;
  bool walks_along(size_t access, size_t loop);
  bool leaves_runs(size_t access, size_t level);
  bool shared_by_threads(size_t access, size_t level) const;
  bool divided_by_threads(size_t access) const;
  const PieceModel::AccessModel& access(size_t i) const { return model_.accesses_[i]; }
  bool moves(size_t access, size_t loop) const;

  const PieceModel& model_;
  const PieceSchedule& schedule_;
  const Target& target_;
  LoopRanges loops_;
  // What was asked for before, by access and level.
  std::vector<std::optional<AccessBlock>> blocks_;
  std::vector<std::optional<bool>> shares_;
};

}  // namespace tile
