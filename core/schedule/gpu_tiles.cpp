// Launches of independent loops: blocks are boxes of iterations, so that indices need no division.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/schedule/gpu.h"
#include "core/schedule/lowering.h"
#include "core/support/checked.h"

namespace tile::gpu {
namespace {

using lowering::append;
using lowering::make_loop;
using lowering::statement;
using lowering::tidy;
using nest::Block;
using nest::LoopKind;

constexpr size_t kDimensions = 3;       // of a launch
constexpr int64_t kMostDeep = 64;       // threads along the outermost of three
constexpr int64_t kMostBlocks = 65535;  // along the second and the third dimension

using Extents = std::array<int64_t, kDimensions>;  // outermost first

// Most first.
std::vector<int64_t> thread_counts(int64_t count, int64_t most) {
  std::vector<int64_t> list;
  if (count <= most) list.push_back(count);
  for (int64_t n = 1; n <= most && n < count; n *= 2) list.push_back(n);
  std::sort(list.rbegin(), list.rend());
  return list;
}

// How well a block's shape uses its warps: the share of threads with work, and preferences: full
// warps along the innermost loop, but no more, so that neighbouring rows share a block; blocks of
// the wanted size.
double quality(const Extents& counts, const Extents& shape, int64_t wanted, int64_t warp) {
  double threads = 1, work = 1, blocks = 1;
  for (size_t d = 0; d < kDimensions; ++d) {
    threads *= static_cast<double>(shape[d]);
    work *= static_cast<double>(counts[d]);
    blocks *= static_cast<double>(ceil_div(counts[d], shape[d]));
  }
  double full = std::ceil(threads / static_cast<double>(warp)) * static_cast<double>(warp);
  double score = work / (blocks * full) * std::pow(threads / static_cast<double>(wanted), 0.25);
  int64_t inner = shape[kDimensions - 1];
  if (inner < warp && inner < counts[kDimensions - 1]) score *= 0.9;
  if (inner > warp) score *= 0.97;
  return score;
}

Extents best_shape(const Extents& counts, const Target& target) {
  int64_t wanted = threads_for(checked_mul(checked_mul(counts[0], counts[1]), counts[2]), target);
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
        double score = quality(counts, {z, y, x}, wanted, target.gpu.warp_size);
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

  TiledLaunch(const std::vector<int64_t>& counts, const Target& target, const Inside& inside)
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
    shape_ = best_shape(extents_, target);
  }

  Block run() {
    Extents blocks;
    for (size_t d = 0; d < kDimensions; ++d) blocks[d] = ceil_div(extents_[d], shape_[d]);
    blocks_z_ = blocks[0];
    for (size_t axis : outer_) blocks[0] = checked_mul(blocks[0], counts_[axis]);
    std::vector<nest::For> grids;
    for (size_t d = 0; d < kDimensions; ++d) {
      bool last = d + 1 == kDimensions && grids.empty();
      if (blocks[d] > 1 || last) {
        grids.push_back(make_loop(kBlocks[d], 0, blocks[d], LoopKind::grid));
      }
    }
    auto fewer = [](const nest::For& a, const nest::For& b) {
      return a.extent.value() < b.extent.value();
    };
    bool fits = std::all_of(grids.begin(), grids.end() - 1, [](const nest::For& loop) {
      return loop.extent.value() <= kMostBlocks;
    });
    if (!fits) std::stable_sort(grids.begin(), grids.end(), fewer);
    return loops_around(std::move(grids), outermost(0, Expr::variable(kBlocks[0])));
  }

 private:
  static constexpr const char* kBlocks[] = {"block_z", "block_y", "block_x"};
  static constexpr const char* kThreads[] = {"thread_z", "thread_y", "thread_x"};

  // The loops that are no dimension of the launch: digits of the first one's block.
  Block outermost(size_t i, const Expr& rest) {
    if (i == 0 && outer_.empty()) return threads(blocks_z_ > 1 ? rest : Expr(0));
    if (i == outer_.size()) return threads(rest);
    int64_t inside = blocks_z_;
    for (size_t j = i + 1; j < outer_.size(); ++j) inside *= counts_[outer_[j]];
    std::string number = std::to_string(i);
    return lowering::bound_to("outer" + number, floor_div(rest, Expr(inside)), [&](const Expr& v) {
      values_[outer_[i]] = v;
      return lowering::bound_to("inner" + number, floor_mod(rest, Expr(inside)),
                                [&](const Expr& left) { return outermost(i + 1, left); });
    });
  }

  Block threads(const Expr& block_z) {
    std::vector<nest::For> loops;
    std::vector<Expr> guards;
    for (size_t i = 0; i < axes_.size(); ++i) {
      size_t d = kDimensions - axes_.size() + i;
      Expr block = extents_[d] <= shape_[d] ? Expr(0) : Expr::variable(kBlocks[d]);
      if (d == 0) block = block_z;
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
  int64_t blocks_z_ = 1;              // without the outer loops
  std::vector<Expr> values_;
};

}  // namespace

Block tiled_launch(const std::vector<int64_t>& counts, const Target& target,
                   const std::function<Block(const std::vector<Expr>&)>& inside) {
  return TiledLaunch(counts, target, inside).run();
}

}  // namespace tile::gpu
