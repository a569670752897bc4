// Launches of independent loops: blocks are boxes of iterations, so that indices need no division.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/lower/launch/gpu_launch.h"
#include "core/lower/launch/nest_builders.h"
#include "core/support/checked.h"

namespace tile::gpu {
namespace {

using lowering::append;
using lowering::make_loop;
using lowering::statement;
using lowering::tidy;
using nest::Block;
using nest::LoopKind;

constexpr size_t kDimensions = 3;  // of a launch
constexpr int64_t kMostDeep = 64;  // threads along the outermost of three
// What neighbouring threads walk along memory before the next row.
constexpr int64_t kBytesTogether = 256, kTogether = 128;
constexpr int64_t kLine = 128;          // bytes of the first cache's lines (CUDA guide)
constexpr int64_t kMostBlocks = 65535;  // along the second and the third dimension

using Extents = std::array<int64_t, kDimensions>;  // outermost first

struct LaunchShape {
  int64_t threads = 1;  // of a block, wanted
  int64_t along = 1;    // of them along the innermost loop, wanted
  int64_t bytes = 1;    // of neighbours in memory that one of these takes
  int64_t warp = 32;
};

// Most first.
std::vector<int64_t> thread_counts(int64_t count, int64_t most) {
  std::vector<int64_t> list;
  if (count <= most) list.push_back(count);
  for (int64_t n = 1; n <= most && n < count; n *= 2) list.push_back(n);
  std::sort(list.rbegin(), list.rend());
  return list;
}

// How well a block's shape uses its warps: the share of threads with work, and preferences: as many
// threads along the innermost loop as walk whole lines of memory, but no more, so that blocks are
// compact and few of them touch a border; blocks of the wanted size.
double quality(const Extents& counts, const Extents& shape, const LaunchShape& launch) {
  double threads = 1, work = 1, blocks = 1;
  for (size_t d = 0; d < kDimensions; ++d) {
    threads *= static_cast<double>(shape[d]);
    work *= static_cast<double>(counts[d]);
    blocks *= static_cast<double>(ceil_div(counts[d], shape[d]));
  }
  auto warp = static_cast<double>(launch.warp);
  double full = std::ceil(threads / warp) * warp;
  double score =
      work / (blocks * full) * std::pow(threads / static_cast<double>(launch.threads), 0.25);
  int64_t inner = shape[kDimensions - 1];
  if (inner < launch.along && inner < counts[kDimensions - 1]) {
    // Half a sector costs as much as a whole one, and a part of a line nearly as much as the line.
    double used = static_cast<double>(std::min(kLine, inner * launch.bytes)) / kLine;
    score *= 0.9 * std::pow(used, 0.25);
  }
  for (; inner > launch.along; inner /= 2) score *= 0.98;
  return score;
}

Extents best_shape(const Extents& counts, const LaunchShape& launch) {
  int64_t wanted = launch.threads;
  Extents best{1, 1, 1};
  double highest = 0;
  for (int64_t x : thread_counts(counts[2], wanted)) {
    for (int64_t y : thread_counts(counts[1], wanted / x)) {
      // Of equal shapes the one with more rows next to each other is first.
      std::vector<int64_t> deep = thread_counts(counts[0], std::min(wanted / x / y, kMostDeep));
      if (x == counts[2] && y == counts[1]) {  // what fits, whatever its number
        deep.push_back(std::min({counts[0], wanted / x / y, kMostDeep}));
      }
      for (int64_t z : deep) {
        double score = quality(counts, {z, y, x}, launch);
        if (score <= highest) continue;
        highest = score;
        best = {z, y, x};
      }
    }
  }
  return best;
}

Block loops_around(std::vector<nest::For> loops, Block body) {
  for (; !loops.empty(); loops.pop_back()) {
    loops.back().body = std::move(body);
    body = {statement(std::move(loops.back()))};
  }
  return body;
}

class TiledLaunch {
 public:
  using Inside = std::function<Block(const std::vector<Expr>&)>;

  TiledLaunch(const std::vector<int64_t>& counts, const Walk& walk, const Target& target,
              const Inside& inside)
      : counts_(counts), inside_(inside), values_(counts.size(), 0) {
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 1) axes_.push_back(i);
    }
    size_t outer = axes_.size() > kDimensions ? axes_.size() - kDimensions : 0;
    outer_.assign(axes_.begin(), axes_.begin() + static_cast<std::ptrdiff_t>(outer));
    axes_.erase(axes_.begin(), axes_.begin() + static_cast<std::ptrdiff_t>(outer));
    extents_.fill(1);
    for (size_t i = 0; i < axes_.size(); ++i) {
      extents_[kDimensions - axes_.size() + i] = counts[axes_[i]];
    }
    int64_t tasks = 1;
    for (int64_t count : counts) tasks = checked_mul(tasks, count);
    int64_t warp = target.gpu.warp_size;
    int64_t together =
        std::min(kTogether, kBytesTogether / static_cast<int64_t>(byte_size(walk.type)));
    int64_t along = std::clamp<int64_t>(together / walk.elements, 1, warp);
    int64_t bytes = walk.elements * static_cast<int64_t>(byte_size(walk.type));
    shape_ = best_shape(extents_, {threads_for(tasks, target), along, bytes, warp});
  }

  Block run() {
    std::vector<BlockLoop> loops;
    for (size_t i = 0; i < outer_.size(); ++i) {
      loops.push_back({"outer" + std::to_string(i), counts_[outer_[i]]});
    }
    for (size_t d = 0; d < kDimensions; ++d) {
      int64_t blocks = ceil_div(extents_[d], shape_[d]);
      bool last = d + 1 == kDimensions && loops.empty();
      if (blocks > 1 || last) loops.push_back({kBlocks[d], blocks});
    }
    size_t merged = loops.size() > kDimensions ? loops.size() - kDimensions + 1 : 1;
    std::vector<BlockLoop> first(loops.begin(),
                                 loops.begin() + static_cast<std::ptrdiff_t>(merged));
    std::vector<nest::For> grids;
    int64_t together = 1;
    for (const BlockLoop& loop : first) together = checked_mul(together, loop.count);
    std::string name = merged > 1 ? "blocks" : first[0].name;
    grids.push_back(make_loop(name, 0, together, LoopKind::grid));
    for (size_t i = merged; i < loops.size(); ++i) {
      grids.push_back(make_loop(loops[i].name, 0, loops[i].count, LoopKind::grid));
    }
    auto fewer = [](const nest::For& a, const nest::For& b) {
      return a.extent.value() < b.extent.value();
    };
    bool fits = std::all_of(grids.begin(), grids.end() - 1, [](const nest::For& loop) {
      return loop.extent.value() <= kMostBlocks;
    });
    if (!fits) std::stable_sort(grids.begin(), grids.end(), fewer);
    return loops_around(std::move(grids), digits(first, Expr::variable(name)));
  }

 private:
  static constexpr const char* kBlocks[] = {"block_z", "block_y", "block_x"};
  static constexpr const char* kThreads[] = {"thread_z", "thread_y", "thread_x"};
  struct BlockLoop {
    std::string name;
    int64_t count = 1;
  };

  // The loops' values from the number of their iterations counted as one, once for a block.
  Block digits(const std::vector<BlockLoop>& loops, const Expr& number) {
    if (loops.size() == 1) return threads();
    std::vector<nest::For> values;
    Expr rest = number;
    for (size_t i = loops.size(); i-- > 0;) {
      Expr digit = i == 0 ? rest : floor_mod(rest, Expr(loops[i].count));
      values.push_back(make_loop(loops[i].name, digit, 1, LoopKind::serial));
      rest = floor_div(rest, Expr(loops[i].count));
    }
    return loops_around(std::move(values), threads());
  }

  Block threads() {
    std::vector<nest::For> loops;
    std::vector<Expr> guards;
    for (size_t i = 0; i < outer_.size(); ++i) {
      values_[outer_[i]] = Expr::variable("outer" + std::to_string(i));
    }
    for (size_t i = 0; i < axes_.size(); ++i) {
      size_t d = kDimensions - axes_.size() + i;
      Expr block = extents_[d] <= shape_[d] ? Expr(0) : Expr::variable(kBlocks[d]);
      Expr thread = shape_[d] == 1 ? Expr(0) : Expr::variable(kThreads[d]);
      Expr value = tidy(Expr(shape_[d]) * block + thread);
      if (extents_[d] % shape_[d] != 0) guards.push_back(tidy(Expr(extents_[d] - 1) - value));
      values_[axes_[i]] = value;
    }
    for (size_t d = 0; d < kDimensions; ++d) {
      bool last = d + 1 == kDimensions && loops.empty();
      if (shape_[d] > 1 || last) {
        loops.push_back(make_loop(kThreads[d], 0, shape_[d], LoopKind::thread));
      }
    }
    return loops_around(std::move(loops), lowering::only_if(std::move(guards), inside_(values_)));
  }

  const std::vector<int64_t>& counts_;
  const Inside& inside_;
  std::vector<size_t> axes_, outer_;  // loops of more than one iteration
  Extents extents_, shape_;           // of the launch's dimensions
  std::vector<Expr> values_;
};

}  // namespace

Block tiled_launch(const std::vector<int64_t>& counts, const Walk& walk, const Target& target,
                   const std::function<Block(const std::vector<Expr>&)>& inside) {
  return TiledLaunch(counts, walk, target, inside).run();
}

}  // namespace tile::gpu
