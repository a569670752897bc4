#include "core/kernel/geometry.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/support/checked.h"

namespace tile {
namespace {

// The step of the loop over the same iterator before position i of `loops`, or the box.
int64_t block_before(const PieceSchedule& schedule, const std::vector<Loop>& loops, size_t i,
                     const Piece& piece) {
  IteratorId iterator = loops[i].iterator;
  int64_t block = piece.box[iterator];
  if (&loops != &schedule.outer) {
    for (const Loop& l : schedule.outer) {
      if (l.iterator == iterator) block = std::min(block, l.step);
    }
  }
  for (size_t j = 0; j < i; ++j) {
    if (loops[j].iterator == iterator) block = std::min(block, loops[j].step);
  }
  return block;
}

int64_t lanes_for(int64_t block) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(block, 1))));
}

}  // namespace

bool uses_tiles(const PieceSchedule& s) {
  size_t tile = s.tile.size(), reduce = s.reduce.size();
  return tile >= 2 && reduce >= 2 && s.tile[tile - 1].binding == Binding::matrix &&
         s.tile[tile - 2].binding == Binding::matrix &&
         s.reduce[reduce - 2].binding == Binding::matrix &&
         s.reduce[reduce - 1].binding == Binding::dot;
}

int64_t lane_count(const std::vector<Loop>& loops, const Piece& piece) {
  PieceSchedule none;
  none.reduce = loops;
  for (size_t i = 0; i < loops.size(); ++i) {
    if (loops[i].binding == Binding::vector) {
      return lanes_for(block_before(none, none.reduce, i, piece));
    }
  }
  return 1;
}

bool joins_lanes(const PieceSchedule& schedule) {
  size_t n = schedule.tile.size();
  return n >= 2 && schedule.tile[n - 1].binding == Binding::vector &&
         schedule.tile[n - 2].binding == Binding::vector;
}

size_t carried_tile_loops(const PieceSchedule& schedule) {
  size_t n = 0;
  while (n < schedule.tile.size() && schedule.carried.valid() &&
         schedule.tile[schedule.tile.size() - 1 - n].iterator == schedule.carried) {
    ++n;
  }
  return n;
}

bool is_chained(const PieceSchedule& schedule) {
  return schedule.carried.valid() && !schedule.outer.empty() &&
         schedule.outer.front().iterator == schedule.carried &&
         schedule.outer.front().binding == Binding::parallel;
}

std::vector<int64_t> tile_shape(const PieceSchedule& schedule, const Piece& piece) {
  std::vector<int64_t> shape;
  for (size_t i = 0; i < schedule.tile.size(); ++i) {
    const Loop& l = schedule.tile[i];
    int64_t block = block_before(schedule, schedule.tile, i, piece);
    bool vector = l.binding == Binding::vector;
    shape.push_back(vector ? block : std::max<int64_t>(1, ceil_div(block, l.step)));
  }
  if (joins_lanes(schedule)) shape.back() *= std::exchange(shape[shape.size() - 2], 1);
  if (!shape.empty() && schedule.tile.back().binding == Binding::vector) {
    shape.back() = lanes_for(shape.back());
  }
  return shape;
}

int64_t vectors_in_tile(const PieceSchedule& schedule, const Piece& piece, DType type,
                        const Target& target) {
  int64_t native = std::max<int64_t>(1, target.vector_bits / bit_width(type));
  auto count = static_cast<int64_t>(std::max<size_t>(piece.stores.size(), 1));
  std::vector<int64_t> shape = tile_shape(schedule, piece);
  for (size_t i = 0; i < shape.size(); ++i) {
    bool vector = schedule.tile[i].binding == Binding::vector;
    count = checked_mul(count, vector ? ceil_div(shape[i], native) : shape[i]);
  }
  if (!schedule.reduce.empty() && schedule.reduce.back().binding == Binding::vector) {
    count = checked_mul(count, ceil_div(lane_count(schedule.reduce, piece), native));
  }
  return count;
}

int64_t accumulator_copies(const PieceSchedule& schedule, const Piece& piece, const Contraction& c,
                           const Target& target, size_t& loop) {
  if (is_gpu(target)) return 1;  // other threads fill the time that an addition takes
  bool lanes = !schedule.reduce.empty() && schedule.reduce.back().binding == Binding::vector;
  for (size_t i = schedule.reduce.size(); i-- > 0 && !uses_tiles(schedule);) {
    const Loop& l = schedule.reduce[i];
    if (l.binding != Binding::unroll) continue;
    int64_t count = ceil_div(block_before(schedule, schedule.reduce, i, piece), l.step);
    int64_t vectors = vectors_in_tile(schedule, piece, c.accumulator, target);
    bool fits = count > 1 && count * vectors <= target.vector_registers / 2;
    bool same = !lanes || schedule.reduce.back().iterator == l.iterator;
    loop = i;
    return fits && same ? count : 1;
  }
  return 1;
}

}  // namespace tile
