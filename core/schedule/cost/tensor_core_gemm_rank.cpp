// Tiles for the tensor cores: the aligned ones, ranked by what bounds a step and by how full the
// last wave of tiles is.
#include "core/schedule/cost/tensor_core_gemm_rank.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/schedule/legality/tensor_core_gemm_legality.h"
#include "core/support/checked.h"
#include "core/target/target.h"

namespace tile::tensor_cores {
namespace {

constexpr int64_t kMostStages = 8, kMostThreadStages = 4;
// Of the rate that mma reaches where bulk copies feed wgmma; f32 is rounded on the way.
constexpr double kThreadShare = 0.5, kThreadShareWords = 0.24;
constexpr double kElementClocks = 0.4;  // that a thread copies by itself, for want of alignment
// Bytes for each clock of a multiprocessor: measured on an H200 by products at 4096^3.
constexpr double kSharedBytes = 128, kCacheBytes = 66, kStoreBytes = 28;
constexpr double kLanes = 128, kFunctionOperations = 100;
constexpr double kSmallTile = 1.03;     // more traffic for each product: the clock is lower
constexpr double kTileClocks = 700;     // filling and draining the stages
constexpr double kLaunchClocks = 4000;  // until the first tile begins, and after the last
constexpr double kGigahertz = 1.755;
constexpr int64_t kLeastSteps = 4;  // of a block that shares a tile's
// Blocks of a cluster wait for each other and read each other's sums.
constexpr double kClusterClocks = 1500, kClusterBytes = 24;
constexpr double kCombineNanoseconds = 1000;
constexpr double kClearGain = 1.1;   // of a stream: less is within the model's error
constexpr double kScattered = 1.15;  // blocks that share a tile read more places of memory at once

// Splits `rows` into powers of two over the operand's iterators so that the padding is least;
// between equals the innermost get most.
class Splitter {
 public:
  Splitter(const Operand& o, const Piece& piece, int64_t rows) : o_(o), piece_(piece) {
    current_.assign(o.iterators.size(), 1);
    visit(o.iterators.size(), rows, 1);
  }
  std::vector<int64_t> best;
  int64_t tiles = 0;

 private:
  void visit(size_t i, int64_t rest, int64_t count) {
    if (i == 0) {
      if (rest == 1 && (best.empty() || count < tiles)) {
        best = current_;
        tiles = count;
      }
      return;
    }
    int64_t box = piece_.box[static_cast<size_t>(o_.iterators[i - 1])];
    bool transposed = !o_.k_inside && i == o_.iterators.size();
    for (int64_t t = rest; t >= (transposed ? 64 : 1); t /= 2) {
      if (t > o_.most[i - 1]) continue;
      current_[i - 1] = t;
      visit(i - 1, rest / t, checked_mul(count, ceil_div(box, t)));
    }
  }

  const Operand& o_;
  const Piece& piece_;
  std::vector<int64_t> current_;
};

struct Shape {
  int64_t rows, columns;
};
constexpr Shape kShapes[] = {{128, 256}, {256, 128}, {64, 256}, {128, 128},
                             {128, 64},  {64, 128},  {64, 64}};

// Operations that finish a cell, a function counted as many.
double cell_operations(const Kernel& kernel) {
  double count = 1;
  for (size_t s = 1; s < kernel.stages.size(); ++s) {
    for (const Piece& piece : kernel.stages[s].contraction.pieces) {
      for (const Node& node : piece.body.nodes) {
        bool function = node.kind == NodeKind::operation &&
                        info(node.op).rule == TypeRule::floating && info(node.op).arity == 1;
        count += function ? kFunctionOperations : 2;
      }
    }
  }
  return count;
}

// Of the products of one tile, and of finishing it.
struct TileClocks {
  double multiply = 0, finish = 0;
};
TileClocks tile_clocks(const Shape& s, const Product& p, double steps, double operations,
                       const Target& target) {
  double products = static_cast<double>(s.rows * s.columns) * static_cast<double>(p.depth);
  double threads = p.type == DType::f32 ? kThreadShareWords : kThreadShare;
  double each = tensor_core_rate(p.type, target) / kGigahertz * (p.bulk ? 1 : threads);
  bool parts = p.bulk && p.split;
  double copied = static_cast<double>(s.rows + s.columns) * (p.bulk ? 128 : 64) * (parts ? 2 : 1);
  double read = static_cast<double>(s.rows) / 64 * static_cast<double>(64 + s.columns) *
                (p.bulk ? 128 : 64) * (parts ? 3 : 1);
  double step = std::max({products / each, (copied + read) / kSharedBytes, copied / kCacheBytes});
  if (p.alignment < 4) {
    step = std::max(step, copied / static_cast<double>(byte_size(p.type)) * kElementClocks);
  }
  auto cells = static_cast<double>(s.rows * s.columns);
  return {steps * step, kTileClocks + cells * 2 / kStoreBytes + cells * operations / kLanes};
}

int64_t stages_that_fit(TensorCoreGemm schedule, const Product& p, const Target& target) {
  int64_t stages = 0;
  for (int64_t n = 2; n <= (p.bulk ? kMostStages : kMostThreadStages); ++n) {
    schedule.stages = n;
    if (broken(schedule, p, target).empty()) stages = n;
  }
  return stages;
}

}  // namespace

namespace {

// How a tile's steps are shared.
struct Sharing {
  int64_t split = 1, cluster = 1, stream_k = 1;
};

std::vector<Sharing> sharings(const Product& product, int64_t tiles, const Target& target) {
  std::vector<Sharing> list{{}};
  int64_t places = target.gpu.multiprocessors;
  for (int64_t cluster : {2, 4, 8}) {
    // A cluster's blocks stand on neighbouring multiprocessors; wider ones leave some without.
    int64_t most = cluster == 2 ? places : places * 3 / 4;
    bool fits = product.bulk && cluster * tiles <= most && cluster * kLeastSteps <= product.steps;
    if (fits) list.push_back({1, cluster});
  }
  std::set<int64_t> splits;
  for (int64_t blocks : {1, 2, 4}) {  // of a multiprocessor
    int64_t split = std::min(blocks * places / tiles, product.steps / kLeastSteps);
    if (split < 2) continue;
    int64_t each = ceil_div(product.steps, split);
    splits.insert(ceil_div(product.steps, each));
  }
  for (int64_t split : splits) list.push_back({split, 1});
  bool streams_k =
      product.bulk && checked_mul(tiles % places, product.steps) >= places * kLeastSteps;
  if (streams_k) list.push_back({1, 1, places});
  return list;
}

// Of a kernel whose tiles are of one shape and share their steps in one way.
class TileModel {
 public:
  TileModel(const Product& product, const Piece& piece, const Kernel& kernel, const Target& target)
      : p_(product), target_(target), operations_(cell_operations(kernel)) {
    for (size_t u = 0; u < piece.parallel_dims; ++u) cells_ *= static_cast<double>(piece.box[u]);
    int64_t bytes = 0;
    for (size_t i = 0; i < 2; ++i) {
      const BoundTensor& t = kernel.tensors[static_cast<size_t>(piece.loads[i].tensor)];
      bytes += element_count(t.shape) * static_cast<int64_t>(byte_size(t.type));
    }
    large_ = 2 * bytes > target.l2_bytes;
    outside_ = bytes > target.l2_bytes;
  }

  double nanoseconds(const Shape& shape, int64_t tiles, const Sharing& how) const {
    if (how.stream_k > 1) return stream_k_ns(shape, tiles, how.stream_k);
    double steps =
        std::ceil(static_cast<double>(p_.steps) / static_cast<double>(how.split * how.cluster));
    TileClocks each = tile_clocks(shape, p_, steps, how.split > 1 ? 1 : operations_, target_);
    auto sums = static_cast<double>(4 * shape.rows * shape.columns);
    if (how.cluster > 1) {
      each.finish =
          kClusterClocks + sums / kClusterBytes + each.finish / static_cast<double>(how.cluster);
    }
    if (how.split > 1) each.finish += sums / kStoreBytes;
    tiles *= how.split * how.cluster;
    int64_t waves = ceil_div(tiles, int64_t{target_.gpu.multiprocessors});
    // Two such tiles share a block: one is finished while the other is multiplied.
    bool hidden = p_.bulk && !p_.split && waves > 1 && shape.rows * shape.columns == 128 * 128;
    auto times = static_cast<double>(waves);
    if (!p_.bulk) {  // several blocks share a multiprocessor
      times = std::max(1.0, static_cast<double>(tiles) / target_.gpu.multiprocessors);
    }
    double clocks =
        hidden ? times * std::max(kSmallTile * each.multiply, each.finish / 2) + each.finish
               : times * (each.multiply + each.finish);
    if (large_ && how.split * how.cluster > 1) clocks *= kScattered;
    double ns = (clocks + kLaunchClocks) / kGigahertz;
    return how.split > 1 ? ns + combine_ns(4 * cells_ * static_cast<double>(how.split)) : ns;
  }

 private:
  // Rounds of whole tiles, and then for each block its share of the others' steps, in one part or
  // two.
  double stream_k_ns(const Shape& shape, int64_t tiles, int64_t blocks) const {
    int64_t cut = tiles % blocks;
    TileClocks whole = tile_clocks(shape, p_, static_cast<double>(p_.steps), operations_, target_);
    double steps = std::ceil(static_cast<double>(cut * p_.steps) / static_cast<double>(blocks));
    TileClocks share = tile_clocks(shape, p_, steps, 0, target_);
    if (outside_) {  // a tile's blocks are at different steps and read nothing in common
      double lines = static_cast<double>(shape.rows + shape.columns) * 128 * (p_.split ? 2 : 1);
      share.multiply =
          std::max(share.multiply, steps * lines * kGigahertz / target_.dram_bytes_per_ns);
    }
    auto sums = static_cast<double>(4 * shape.rows * shape.columns);
    double keep = (cut > 1 ? 2 : 1) * (kTileClocks + sums / kStoreBytes);
    double clocks = static_cast<double>(tiles / blocks) * (whole.multiply + whole.finish) +
                    (share.multiply + keep) * (large_ ? kScattered : 1);
    double ns = (clocks + kLaunchClocks) / kGigahertz;
    return kClearGain * (ns + combine_ns(sums * static_cast<double>(blocks + cut)));
  }

  // The second launch reads what the first has left in the cache.
  double combine_ns(double bytes) const {
    return target_.gpu.launch_ns + kCombineNanoseconds +
           bytes / (target_.l2_bytes_per_ns * target_.gpu.multiprocessors);
  }

  const Product& p_;
  const Target& target_;
  double operations_, cells_ = 1;
  bool large_ = false;    // memory is read, not the cache
  bool outside_ = false;  // even what one round of tiles reads again has left the cache
};

}  // namespace

std::vector<Ranked> ranked_tiles(const Product& product, const Piece& piece, const Kernel& kernel,
                                 const Target& target) {
  int64_t batches = 1;
  for (int u : product.batch) batches = checked_mul(batches, piece.box[static_cast<size_t>(u)]);
  TileModel model(product, piece, kernel, target);
  std::vector<Ranked> all;
  for (const Shape& shape : kShapes) {
    Splitter rows(product.a, piece, shape.rows), columns(product.b, piece, shape.columns);
    if (rows.best.empty() || columns.best.empty()) continue;
    Ranked r;
    r.schedule.tile.assign(piece.box.size(), 1);
    auto set = [&](const Operand& o, const std::vector<int64_t>& tile) {
      for (size_t i = 0; i < tile.size(); ++i) {
        r.schedule.tile[static_cast<size_t>(o.iterators[i])] = tile[i];
      }
    };
    set(product.a, rows.best);
    set(product.b, columns.best);
    r.schedule.tile[static_cast<size_t>(product.k)] = product.depth;
    r.schedule.stages = stages_that_fit(r.schedule, product, target);
    if (r.schedule.stages == 0) continue;
    int64_t tiles = checked_mul(batches, checked_mul(rows.tiles, columns.tiles));
    for (const Sharing& how : sharings(product, tiles, target)) {
      r.schedule.split = how.split;
      r.schedule.cluster = how.cluster;
      r.schedule.stream_k = how.stream_k;
      if (!broken(r.schedule, product, target).empty()) continue;
      r.nanoseconds = model.nanoseconds(shape, tiles, how);
      all.push_back(r);
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Ranked& x, const Ranked& y) { return x.nanoseconds < y.nanoseconds; });
  return all;
}

}  // namespace tile::tensor_cores
