#include "core/schedule/cost/time_tiles.h"

#include <algorithm>

#include "core/support/checked.h"

namespace tile {
namespace {

// Turns at a time. More of them save little: data comes from memory once for all of them, while
// what is done around edges grows with them.
constexpr int64_t kMostTurns = 16;
// Fewer trips at a time do not make up for what they cost.
constexpr int64_t kFewestTrips = 3;
// The other half of a cache is for what else a turn touches.
constexpr int64_t kCacheShare = 2;
constexpr int64_t kMostIterations = int64_t{1} << 40;

int64_t least_block(const TiledDimension& d) { return d.iterations / d.blocks; }

// Turns that blocks of this size allow.
int64_t allowed_turns(const TiledDimension& d) {
  if (d.reach == 0 || d.edges() == 0) return kMostTurns;
  return 1 + least_block(d) / (2 * d.reach);
}

// Whole trips of so many turns that the tiles allow; fewer than a trip's: none.
bool set_turns(TimeTiles& tiles, int64_t turns, int64_t trips) {
  int64_t most = kMostTurns;
  for (const TiledDimension& d : tiles.dimensions) most = std::min(most, allowed_turns(d));
  tiles.turns = std::min(most / turns, trips) * turns;
  return tiles.turns / turns >= kFewestTrips;
}

// At least so many blocks, and as many for each thread where that is not many more.
int64_t shared_out(int64_t blocks, int64_t iterations, int64_t threads) {
  int64_t even = ceil_div(blocks, threads) * threads;
  return std::clamp<int64_t>(even, 1, iterations);
}

TimeTiles along_the_first(const std::vector<TiledDimension>& dimensions, int64_t blocks,
                          int64_t threads) {
  TimeTiles tiles{dimensions, 2};
  TiledDimension& first = tiles.dimensions[0];
  first.blocks = shared_out(blocks, first.iterations, threads);
  return tiles;
}

// Blocks that are as many times as long as they reach along both dimensions, so that both allow as
// many turns.
TimeTiles along_both(const std::vector<TiledDimension>& dimensions, int64_t blocks,
                     int64_t threads) {
  TimeTiles tiles{dimensions, 2};
  TiledDimension &a = tiles.dimensions[0], &b = tiles.dimensions[1];
  // Steps of the reach along each.
  int64_t rows = std::max<int64_t>(1, a.iterations / std::max<int64_t>(1, a.reach)),
          columns = std::max<int64_t>(1, b.iterations / std::max<int64_t>(1, b.reach));
  // The most columns of blocks whose blocks are no wider than they are long.
  int64_t across = 1;
  while (across < columns && across * across * rows < blocks * columns) ++across;
  b.blocks = std::min(across, b.iterations);
  a.blocks = shared_out(ceil_div(blocks, b.blocks), a.iterations, threads);
  return tiles;
}

}  // namespace

int64_t TiledDimension::cut(int64_t block) const {
  int64_t rest = iterations % blocks;
  return block * (iterations / blocks) + std::min(block, rest);
}

int64_t TimeTiles::pieces(size_t phase) const {
  int64_t count = 1;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    bool edge = (phase >> d & 1) != 0;
    count *= edge ? dimensions[d].edges() : dimensions[d].blocks;
  }
  return count;
}

std::string print(const TimeTiles& t, int64_t turns) {
  std::string blocks, sizes, iterations;
  for (const TiledDimension& d : t.dimensions) {
    const char* by = blocks.empty() ? "" : " x ";
    blocks += by + std::to_string(d.blocks);
    sizes += by + std::to_string(ceil_div(d.iterations, d.blocks));
    iterations += by + std::to_string(d.iterations);
  }
  return std::to_string(t.turns / turns) + " trips at a time over " + blocks + " blocks of " +
         sizes + " of " + iterations + " iterations";
}

bool is_sound(const TimeTiles& t) {
  if (t.dimensions.empty() || t.dimensions.size() > 2) return false;
  if (t.turns < 2 || t.turns > kMostTurns) return false;
  return std::all_of(t.dimensions.begin(), t.dimensions.end(), [&](const TiledDimension& d) {
    bool numbers = d.iterations >= 1 && d.iterations <= kMostIterations && d.reach >= 0 &&
                   d.reach <= d.iterations && d.blocks >= 1 && d.blocks <= d.iterations;
    return numbers && (d.edges() == 0 || 2 * (t.turns - 1) * d.reach <= least_block(d));
  });
}

IterationSpan span_of(const TimeTiles& tiles, size_t phase, int64_t piece, int64_t turn,
                      size_t along) {
  // The last dimension's numbers are the fastest.
  int64_t number = piece;
  for (size_t d = tiles.dimensions.size(); d-- > along;) {
    const TiledDimension& at = tiles.dimensions[d];
    bool edge = (phase >> d & 1) != 0;
    int64_t count = edge ? at.edges() : at.blocks;
    if (d > along) {
      number /= count;
      continue;
    }
    number %= count;
    int64_t grown = turn * at.reach;
    if (edge) {
      int64_t place = at.cut(at.wraps ? number : number + 1);
      return {place - grown, place + grown};
    }
    bool first = number == 0 && !at.wraps, last = number == at.blocks - 1 && !at.wraps;
    return {first ? 0 : at.cut(number) + grown, last ? at.iterations : at.cut(number + 1) - grown};
  }
  return {};
}

std::vector<TimeTiles> time_tiles(const std::vector<TiledDimension>& dimensions, int64_t turns,
                                  int64_t trips, int64_t bytes, const Target& target) {
  std::vector<TimeTiles> list;
  int64_t threads = std::max(1, target.threads);
  if (bytes <= threads * target.l2_bytes || turns < 1) return list;
  auto offer = [&](TimeTiles tiles, int64_t room) {
    bool good = set_turns(tiles, turns, trips) && is_sound(tiles) && tiles.pieces(0) >= threads &&
                bytes / tiles.pieces(0) <= room;
    if (good && std::find(list.begin(), list.end(), tiles) == list.end()) list.push_back(tiles);
  };
  int64_t near = std::max<int64_t>(1, target.l2_bytes / kCacheShare);
  offer(along_the_first(dimensions, ceil_div(bytes, near), threads), near);
  if (dimensions.size() > 1) offer(along_both(dimensions, ceil_div(bytes, near), threads), near);
  if (bytes > target.l3_bytes) {
    int64_t share = std::max<int64_t>(1, target.l3_bytes / threads / kCacheShare);
    offer(along_the_first(dimensions, ceil_div(bytes, share), threads), share);
  }
  auto later = [&](const TimeTiles& a, const TimeTiles& b) { return a.turns > b.turns; };
  std::stable_sort(list.begin(), list.end(), later);
  constexpr size_t kMostKinds = 2;
  if (list.size() > kMostKinds) list.resize(kMostKinds);
  return list;
}

}  // namespace tile
