// The analytic model's traffic between the levels of memory: how often the loops of a schedule
// bring in the block that each access touches.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/schedule/facts/loop_ranges.h"
#include "core/schedule/facts/piece_facts.h"

namespace tile {

// Nanoseconds to bring the block of one access from memory of `rate` bytes per nanosecond: short
// runs and translations cost more.
double fetch_ns(const AccessFacts& a, Range range, double rate, const Target& target);

// Both references must outlive it. Not for several threads.
class Traffic {
 public:
  Traffic(const PieceFacts& facts, const PieceSchedule& schedule);

  // Nanoseconds that data take to come into a cache of `bytes` from the level behind it.
  double memory_ns(int64_t bytes, double ways, double rate);
  // The same of translations of addresses.
  double translation_ns();
  // Lines that the hardware fetches ahead along the rows of one tile, for the tile beside it, are
  // lost where the rows share the sets of the first cache: each is fetched twice. Of reductions
  // that read each element once; others are held by their blocks.
  double crowded_ns();

 private:
  // Of a store: what is found again, and of several ways the units that fall on different sets.
  struct Capacity {
    double usable = 0, ways = 1, way = 0;
  };
  template <class Held, class Moved>
  double between(const Capacity& capacity, const Held& held, const Moved& moved);
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
  const AccessFacts& access(size_t i) const { return f_.accesses[i]; }
  bool moves(size_t access, size_t loop) const;

  const PieceFacts& f_;
  const PieceSchedule& schedule_;
  const Target& target_;
  LoopRanges loops_;
  // What was asked for before, by access and level.
  std::vector<std::optional<AccessBlock>> blocks_;
  std::vector<std::optional<bool>> shares_;
};

}  // namespace tile
