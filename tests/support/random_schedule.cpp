#include "tests/support/random_schedule.h"

#include <algorithm>
#include <random>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/forms/amx_tiles.h"
#include "core/kernel/forms/dot_products.h"
#include "core/kernel/forms/window.h"
#include "core/kernel/geometry.h"
#include "core/kernel/rows.h"
#include "core/kernel/stream.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/gpu_schedule.h"
#include "tests/support/random_gpu_form.h"

namespace tile {
namespace {

class RandomPiece {
 public:
  RandomPiece(const Piece& piece, const Contraction& c, const Kernel& kernel, const Target& target,
              std::mt19937_64& random)
      : piece_(piece), target_(target), random_(random) {
    if (!is_gpu(target)) dot_ = dot_form(piece, c, kernel.tensors, chance(1, 2) ? 2 : 4);
    factors_ = tile_factors(piece, c, kernel.tensors);
    if (factors_ && tiles_per_ns(*factors_, target) <= 0) factors_.reset();
  }

  PieceSchedule make(const std::optional<size_t>& along) {
    bool pairs = piece_.parallel_dims > 1 && piece_.parallel_dims < piece_.box.size();
    if (factors_ && pairs && chance(1, 2)) return matrices();
    PieceSchedule s;
    if (along && chance(1, 3)) s.carried = IteratorId(*along);
    size_t n = piece_.box.size();
    bool reduces = dot_ && n > piece_.parallel_dims && chance(2, 3);
    size_t dot = reduces ? piece_.parallel_dims + pick(n - piece_.parallel_dims) : n;
    if (dot < n && !packs_along(*dot_, piece_, IteratorId(dot))) dot = n;
    bool vector = n > 0 && chance(3, 4);
    size_t lanes = dot < n ? piece_.parallel_dims : n;
    size_t vector_iterator = vector && lanes > 0 ? pick(lanes) : n;
    for (size_t u = 0; u < piece_.parallel_dims; ++u) {
      if (IteratorId(u) != s.carried) parallel_dim(u, u == vector_iterator, s);
    }
    for (size_t u = piece_.parallel_dims; u < n && !s.carried.valid(); ++u) {
      reduction(u, u == vector_iterator, u == dot, s);
    }
    if (vector_iterator < piece_.parallel_dims && chance(1, 4)) join_lanes(vector_iterator, s);
    shuffle(s.outer);
    shuffle(s.reduce);
    shuffle(s.tile);
    vector_last(s.reduce);
    dot_last(s.reduce);
    vector_last(s.tile);
    joined_last(vector_iterator, s.tile);
    if (s.carried.valid() && s.tile.size() > 1 && chance(1, 3)) {
      s.tile.front().binding = Binding::serial;  // not legal along a window
    }
    if (s.carried.valid() && chance(1, 2)) lanes_along_carried(s);
    size_t parallel = pick(3);
    for (size_t i = 0; i < std::min(parallel, s.outer.size()); ++i) {
      if (!piece_.is_parallel(s.outer[i].iterator)) break;
      if (s.outer[i].iterator == s.carried) break;
      s.outer[i].binding = Binding::parallel;
    }
    if (s.carried.valid() && s.outer.size() > 0 && s.outer.back().iterator == s.carried &&
        chance(1, 3)) {
      int64_t turn = s.outer.back().step * static_cast<int64_t>(1 + pick(3));
      s.outer.insert(s.outer.begin(), {s.carried, turn, Binding::parallel});
    }
    for (size_t load = 0; load < piece_.loads.size() && !s.carried.valid(); ++load) {
      if (chance(dot < n ? 2 : 1, 3)) packing(load, s);
    }
    return s;
  }

 private:
  size_t pick(size_t n) { return static_cast<size_t>(random_() % n); }
  bool chance(uint64_t of, uint64_t all) { return random_() % all < of; }
  int64_t lanes() { return int64_t{1} << (1 + pick(4)); }

  void parallel_dim(size_t u, bool vector, PieceSchedule& s) {
    IteratorId iterator(u);
    int64_t block = 1;
    if (vector) {
      int64_t width = lanes();
      block = width * static_cast<int64_t>(1 + pick(3));
      if (block > width) s.tile.push_back({iterator, width, Binding::unroll});
      s.tile.push_back({iterator, 1, Binding::vector});
    } else if (chance(1, 2)) {
      block = static_cast<int64_t>(2 + pick(4));
      s.tile.push_back({iterator, 1, Binding::unroll});
    }
    if (chance(1, 3)) {
      s.outer.push_back({iterator, block * static_cast<int64_t>(2 + pick(3)), Binding::serial});
    }
    s.outer.push_back({iterator, block, Binding::serial});
  }

  // Registers of sums along two parallel dimensions; not legal where a factor moves with both or a
  // condition names one.
  PieceSchedule matrices() {
    PieceSchedule s;
    size_t m = pick(piece_.parallel_dims), n = pick(piece_.parallel_dims);
    size_t k = piece_.parallel_dims + pick(piece_.box.size() - piece_.parallel_dims);
    for (size_t u = 0; u < piece_.parallel_dims; ++u) tiled_parallel_dim(u, u == m || u == n, s);
    for (size_t u = piece_.parallel_dims; u < piece_.box.size(); ++u)
      grouped_reduction(u, u == k, s);
    shuffle(s.outer);
    shuffle(s.reduce);
    shuffle(s.tile);
    s.tile.push_back({IteratorId(m), 1, Binding::matrix});
    s.tile.push_back({IteratorId(n), 1, Binding::matrix});
    s.reduce.push_back({IteratorId(k), factors_->group, Binding::matrix});
    s.reduce.push_back({IteratorId(k), 1, Binding::dot});
    for (Loop& l : s.outer) {
      if (!piece_.is_parallel(l.iterator) || chance(2, 3)) break;
      l.binding = Binding::parallel;
    }
    for (size_t load : {factors_->x, factors_->y}) {
      if (chance(4, 5)) packing(load, s);
    }
    return s;
  }
  void tiled_parallel_dim(size_t u, bool tiled, PieceSchedule& s) {
    IteratorId iterator(u);
    int64_t block = tiled ? size(target_.tiles.rows) : 1;
    if (block > 1 && chance(1, 2)) {
      s.tile.push_back({iterator, block, Binding::unroll});
      block *= static_cast<int64_t>(2 + pick(2));
    }
    int64_t outer = block * size(3);
    if (outer > block && chance(1, 3)) s.outer.push_back({iterator, outer, Binding::serial});
    s.outer.push_back({iterator, block, Binding::serial});
  }
  void grouped_reduction(size_t u, bool grouped, PieceSchedule& s) {
    IteratorId iterator(u);
    int64_t block = grouped ? factors_->group * size(target_.tiles.groups()) : 1;
    int64_t outer = block * size(3);
    if (outer > block && chance(1, 4)) s.outer.push_back({iterator, outer, Binding::serial});
    bool one = grouped && block == factors_->group;  // the matrix loop is the block
    if (!one) s.reduce.push_back({iterator, block, Binding::serial});
  }
  int64_t size(int64_t most) {
    return chance(1, 2) ? most : 1 + static_cast<int64_t>(pick(static_cast<size_t>(most)));
  }
  // The last iterator of each copy: the columns, or the groups of neighbours.
  void copied_for_tiles(size_t load, PieceSchedule& s, Packing& p) {
    bool columns = moves_with(piece_.loads[load], s.tile.back().iterator);
    IteratorId k = s.reduce.back().iterator;
    if (std::none_of(p.order.begin(), p.order.end(),
                     [&](const Loop& l) { return l.iterator == k && l.step == factors_->group; })) {
      p.order.push_back({k, factors_->group, Binding::serial});
    }
    auto last = [&](const Loop& l) {
      if (columns) return l.iterator == s.tile.back().iterator && l.step == 1;
      return l.iterator == k && l.step == factors_->group;
    };
    std::stable_partition(p.order.begin(), p.order.end(), [&](const Loop& l) { return !last(l); });
    std::stable_partition(p.order.begin(), p.order.end(),
                          [&](const Loop& l) { return l.iterator != k || l.step != 1; });
  }

  // Not legal along a window of run-time length or beside another vector loop.
  void lanes_along_carried(PieceSchedule& s) {
    int64_t width = lanes(), vectors = static_cast<int64_t>(1 + pick(3));
    s.outer.push_back({s.carried, width * vectors, Binding::serial});
    if (vectors > 1) s.tile.push_back({s.carried, width, Binding::unroll});
    s.tile.push_back({s.carried, 1, Binding::vector});
  }

  // The vector takes all of its parallel dimension for each of some values of another.
  void join_lanes(size_t vector, PieceSchedule& s) {
    size_t other = pick(piece_.parallel_dims);
    IteratorId last(vector), first(other);
    if (last == first || first == s.carried || last == s.carried) return;
    auto either = [&](const Loop& l) { return l.iterator == last || l.iterator == first; };
    std::erase_if(s.outer, either);
    std::erase_if(s.tile, either);
    s.outer.push_back({first, static_cast<int64_t>(2 + pick(4)), Binding::serial});
    s.tile.push_back({first, 1, Binding::vector});
    s.tile.push_back({last, 1, Binding::vector});
  }
  static void joined_last(size_t vector, std::vector<Loop>& tile) {
    std::stable_partition(tile.begin(), tile.end(), [&](const Loop& l) {
      return l.binding != Binding::vector || l.iterator != IteratorId(vector);
    });
  }

  void reduction(size_t u, bool vector, bool dot, PieceSchedule& s) {
    IteratorId iterator(u);
    int64_t block = 1;
    std::vector<Loop> inner;
    if (dot) {
      block = dot_->group;
      inner.push_back({iterator, 1, Binding::dot});
    }
    if (vector) {
      block = lanes();
      inner.push_back({iterator, 1, Binding::vector});
    }
    if (chance(1, 2)) {
      inner.insert(inner.begin(), {iterator, block, Binding::unroll});
      block *= static_cast<int64_t>(2 + pick(3));
    }
    inner.insert(inner.begin(), {iterator, block, Binding::serial});
    if (chance(1, 4)) {
      block *= static_cast<int64_t>(2 + pick(2));
      s.outer.push_back({iterator, block, Binding::serial});
    }
    s.reduce.insert(s.reduce.end(), inner.begin(), inner.end());
  }

  // Any order in which the loops of one iterator keep theirs.
  void shuffle(std::vector<Loop>& loops) {
    std::vector<Loop> mixed = loops;
    std::shuffle(mixed.begin(), mixed.end(), random_);
    std::vector<bool> used(loops.size(), false);
    for (Loop& slot : mixed) {
      size_t i = 0;
      while (used[i] || loops[i].iterator != slot.iterator) ++i;
      used[i] = true;
      slot = loops[i];
    }
    loops = std::move(mixed);
  }
  static void vector_last(std::vector<Loop>& loops) {
    std::stable_partition(loops.begin(), loops.end(),
                          [](const Loop& l) { return l.binding != Binding::vector; });
  }

  static void dot_last(std::vector<Loop>& loops) {
    std::stable_partition(loops.begin(), loops.end(),
                          [](const Loop& l) { return l.binding != Binding::dot; });
  }

  void packing(size_t load, PieceSchedule& s) {
    Packing p;
    p.load = load;
    p.level = pick(s.outer.size() + 1);
    std::vector<Loop> inside(s.outer.begin() + static_cast<std::ptrdiff_t>(p.level), s.outer.end());
    inside.insert(inside.end(), s.reduce.begin(), s.reduce.end());
    inside.insert(inside.end(), s.tile.begin(), s.tile.end());
    for (const Loop& l : inside) {
      bool used = false;
      for (const Index& index : piece_.loads[load].index) {
        used = used || !index.affine.coefficient(l.iterator).is_zero();
      }
      if (used && (l.step == 1 || chance(1, 2))) {
        p.order.push_back({l.iterator, l.step, Binding::serial});
      }
    }
    shuffle(p.order);
    std::stable_partition(p.order.begin(), p.order.end(),
                          [](const Loop& l) { return l.step != 1; });
    if (dot_group(s) > 1) {
      std::stable_partition(p.order.begin(), p.order.end(), [&](const Loop& l) {
        return l.step != 1 || l.iterator != s.reduce.back().iterator;
      });
    }
    if (uses_tiles(s)) copied_for_tiles(load, s, p);
    s.packings.push_back(std::move(p));
  }

  const Piece& piece_;
  const Target& target_;
  std::mt19937_64& random_;
  std::optional<DotForm> dot_;
  std::optional<DotForm> factors_;  // of tile registers, where the target has such
};

std::vector<SharedLoop> random_shared(size_t rows, std::mt19937_64& random,
                                      std::vector<int64_t>& blocks) {
  std::vector<SharedLoop> outer, inner;
  for (size_t r = 0; r < rows; ++r) {
    constexpr int64_t kBlocks[] = {1, 1, 3, 4, 8, 16};
    blocks.push_back(kBlocks[random() % std::size(kBlocks)]);
    bool twice = random() % 3 == 0;
    if (twice) outer.push_back({r, blocks[r] * static_cast<int64_t>(2 + random() % 3)});
    (twice ? inner : outer).push_back({r, blocks[r]});
  }
  std::shuffle(outer.begin(), outer.end(), random);
  size_t parallel = random() % 3;
  for (size_t i = 0; i < std::min(parallel, outer.size()); ++i) {
    outer[i].binding = Binding::parallel;
  }
  outer.insert(outer.end(), inner.begin(), inner.end());
  return outer;
}

Schedule random_rows(const Kernel& kernel, const Target& target, std::mt19937_64& random) {
  std::vector<int64_t> blocks;
  std::vector<SharedLoop> shared = random_shared(row_loops(kernel), random, blocks);
  if (has_stream(kernel)) {
    constexpr int64_t kBlocks[] = {1, 2, 5, 8, 16, 64};
    blocks.push_back(kBlocks[random() % std::size(kBlocks)]);
    shared.push_back({row_loops(kernel), blocks.back(), Binding::serial});
  }
  Kernel block = block_of_rows(kernel, blocks);
  Schedule schedule = schedule_in_rows(kernel, shared, [&](size_t s) {
    return plain_schedule(block.stages[s].contraction.pieces[0]);
  });
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    if (kernel.stages[s].attach.valid()) continue;
    const Contraction& c = block.stages[s].contraction;
    std::optional<size_t> scan = carried_parallel_dim(c.pieces[0], c, target);
    for (int attempt = 0; attempt < 64; ++attempt) {
      Schedule trial = schedule;
      PieceSchedule drawn = RandomPiece(c.pieces[0], c, block, target, random).make(scan);
      trial.stages[s] = {inside_shared(drawn, kernel.stages[s], shared)};
      if (!illegal(trial, kernel, target).empty()) continue;
      schedule = std::move(trial);
      break;
    }
  }
  return schedule;
}

}  // namespace

Schedule random_schedule(const Kernel& kernel, const Target& target, uint64_t seed) {
  std::mt19937_64 random(seed);
  if (std::vector<Schedule> streams = gpu::stream_schedules(kernel, target); !streams.empty()) {
    return streams[random() % streams.size()];
  }
  if (is_gpu(target) && random() % 2 == 0) {
    std::vector<Schedule> lines = gpu::line_schedules(kernel, target);
    if (!lines.empty()) return lines[random() % lines.size()];
  }
  if (row_loops(kernel) > 0) return random_rows(kernel, target, random);
  Schedule schedule = plain_schedule(kernel);
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    for (size_t p = 0; p < schedule.stages[s].size(); ++p) {
      const Piece& piece = kernel.stages[s].contraction.pieces[p];
      std::optional<size_t> scan =
          carried_parallel_dim(piece, kernel.stages[s].contraction, target);
      for (int attempt = 0; attempt < 64; ++attempt) {
        Schedule trial = schedule;
        if (is_gpu(target)) {
          auto form = random_gpu_form(piece, kernel.stages[s].contraction, kernel, random());
          if (form) trial.stages[s][p] = std::move(*form);
          if (form && illegal(trial, kernel, target).empty()) {
            schedule = std::move(trial);
            break;
          }
        }
        trial.stages[s][p] =
            RandomPiece(piece, kernel.stages[s].contraction, kernel, target, random).make(scan);
        if (!illegal(trial, kernel, target).empty()) continue;
        schedule = std::move(trial);
        break;
      }
    }
  }
  return schedule;
}

}  // namespace tile
