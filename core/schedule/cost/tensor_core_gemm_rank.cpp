// Tiles for the tensor cores: the aligned ones, ranked by what bounds a step and by how full the
// last wave of tiles is.
#include "core/schedule/cost/tensor_core_gemm_rank.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/ir/operation_cost.h"
#include "core/schedule/legality/tensor_core_gemm_legality.h"
#include "core/support/checked.h"
#include "core/target/target.h"

namespace tile::tensor_cores {
namespace {

constexpr int64_t kMostStages = 8, kMostThreadStages = 4;
// [H200]: gpu_model.h. Shares first: of the rate that mma reaches where bulk copies feed wgmma, of
// f32 too, which is rounded on the way.
constexpr double kThreadShare = 0.5, kThreadShareWords = 0.24;  // [H200]
constexpr double kThreadShareDoubles = 0.87;  // [H200] of f64, which only mma multiplies: 8192³
// [H200] Instructions of f64 of four warps, one on each scheduler, beside those of eight: 54 and 65
// TFLOP/s.
constexpr double kLoneWarps = 1.2;
constexpr int64_t kColumnsOfEightWarps = 128;
constexpr double kSmallTile = 1.03;  // [H200] more traffic for each product: the clock is lower
constexpr double kClearGain = 1.1;   // of stream-K: less is within the model's error
constexpr double kScattered = 1.15;  // [H200] blocks that share a tile read more places at once
// Clocks of the busy tensor cores (GpuLimits::matrix_gigahertz): of an element that a thread copies
// by itself, for want of alignment; of filling and draining the stages; until the first tile
// begins, and after the last; of a cluster's blocks that wait for each other.
constexpr double kElementClocks = 0.4;        // [H200]
constexpr double kTileClocks = 700;           // [H200]
constexpr double kLaunchClocks = 4000;        // [H200]
constexpr double kClusterClocks = 1500;       // [H200]
constexpr double kCombineNanoseconds = 1000;  // [H200] of a launch with few cells to share
// [H200] Times what an operation takes where enough threads hide its latency: a tile's cells are
// finished by few, and functions are chains. Others, and loads, take two lanes' clocks.
constexpr double kFunctionStretch = 100.0 / 12;
constexpr double kNodeInstructions = 2;
constexpr int64_t kLeastSteps = 4;  // of a block that shares a tile's

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
    int64_t box = piece_.box[o_.iterators[i - 1]];
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

// Instructions that finish a cell.
double cell_operations(const Kernel& kernel) {
  double count = 1;
  for (size_t s = 1; s < kernel.stages.size(); ++s) {
    for (const Piece& piece : kernel.stages[s].contraction.pieces) {
      for (const Node& node : piece.body.nodes) {
        double each = node.kind == NodeKind::operation ? cost_of(node.op).instructions : 1;
        count += each > 1 ? kFunctionStretch * each : kNodeInstructions;
      }
    }
  }
  return count;
}

// Of the products of one tile, the largest of four bounds, and of finishing it.
struct TileClocks {
  double products = 0, shared = 0, copied = 0, elements = 0;
  double multiply = 0, finish = 0;
};
TileClocks tile_clocks(const Shape& s, const Product& p, double steps, double operations,
                       const Target& target) {
  double products = static_cast<double>(s.rows * s.columns) * static_cast<double>(p.depth);
  double threads = p.sum == DType::f64      ? kThreadShareDoubles
                   : p.a.type == DType::f32 ? kThreadShareWords
                                            : kThreadShare;
  // Threads widen f8 to f16.
  DType type = is_f8(p.a.type) && !p.bulk ? DType::f16 : p.a.type;
  double each =
      tensor_core_rate(type, target) / target.gpu.matrix_gigahertz * (p.bulk ? 1 : threads);
  bool parts = p.bulk && p.split;
  auto row = static_cast<double>(row_bytes(p));
  double copied = static_cast<double>(s.rows + s.columns) * row * (parts ? 2 : 1);
  double read = static_cast<double>(s.rows) / 64 * static_cast<double>(64 + s.columns) * row *
                (parts ? 3 : 1);
  TileClocks c;
  c.products = steps * (products / each);
  c.shared = steps * ((copied + read) / target.gpu.shared_bytes_per_clock);
  c.copied = steps * (copied / target.gpu.copied_bytes_per_clock);
  if (p.alignment < 4) {
    c.elements = steps * (copied / static_cast<double>(byte_size(p.a.type)) * kElementClocks);
  }
  auto cells = static_cast<double>(s.rows * s.columns);
  double result_bytes = is_float(p.sum) ? 2 : 4;
  c.multiply = std::max({c.products, c.shared, c.copied, c.elements});
  c.finish = kTileClocks + cells * result_bytes / target.gpu.stored_bytes_per_clock +
             cells * operations / lanes_per_clock(target);
  return c;
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
      const BoundTensor& t = kernel.tensors[piece.loads[i].tensor];
      bytes += element_count(t.shape) * static_cast<int64_t>(byte_size(t.type));
    }
    large_ = 2 * bytes > target.l2_bytes;
    outside_ = bytes > target.l2_bytes;
  }

  // The parts are added to `into`, if it is given.
  double nanoseconds(const Shape& shape, int64_t tiles, const Sharing& how,
                     CostTerm* into = nullptr) const {
    if (how.stream_k > 1) return stream_k_ns(shape, tiles, how.stream_k, into);
    double steps =
        std::ceil(static_cast<double>(p_.steps) / static_cast<double>(how.split * how.cluster));
    TileClocks each = tile_clocks(shape, p_, steps, how.split > 1 ? 1 : operations_, target_);
    double sums = sum_bytes() * static_cast<double>(shape.rows * shape.columns);
    const GpuLimits& gpu = target_.gpu;
    if (how.cluster > 1) {
      each.finish = kClusterClocks + sums / gpu.cluster_bytes_per_clock +
                    each.finish / static_cast<double>(how.cluster);
    }
    if (how.split > 1) each.finish += sums / gpu.stored_bytes_per_clock;
    tiles *= how.split * how.cluster;
    int64_t waves = ceil_div(tiles, int64_t{gpu.multiprocessors});
    // Two such tiles share a block: one is finished while the other is multiplied.
    bool hidden = p_.bulk && !p_.split && !p_.short_sums && waves > 1 &&
                  shape.rows * shape.columns == 128 * 128;
    auto times = static_cast<double>(waves);
    if (!p_.bulk) {  // several blocks share a multiprocessor
      times = std::max(1.0, static_cast<double>(tiles) / gpu.multiprocessors);
    }
    // Blocks of f64 load ahead of their products, and keep a multiprocessor busy alone.
    if (p_.sum == DType::f64) times = static_cast<double>(waves);
    bool lone = p_.sum == DType::f64 && waves == 1 && shape.columns < kColumnsOfEightWarps;
    if (lone) each.multiply *= kLoneWarps;
    double clocks =
        hidden ? times * std::max(kSmallTile * each.multiply, each.finish / 2) + each.finish
               : times * (each.multiply + each.finish);
    double scattered = large_ && how.split * how.cluster > 1 ? kScattered : 1;
    clocks *= scattered;
    double ns = (clocks + kLaunchClocks) / gpu.matrix_gigahertz;
    double combining = combine_ns(sum_bytes() * cells_ * static_cast<double>(how.split));
    if (into != nullptr) {
      double scale = scattered / gpu.matrix_gigahertz;
      if (hidden) {
        into->add(combine("tiles beside the ends of others", Combine::largest, 1,
                          {multiply_term(each, kSmallTile * times * scale),
                           cost_leaf("finishing tiles", times * each.finish / 2 * scale)}));
        into->add("finishing the last tile", each.finish * scale);
      } else {
        into->add(multiply_term(each, times * scale));
        into->add("finishing tiles", times * each.finish * scale);
      }
      into->facts = {{"tiles", static_cast<double>(tiles)}, {"waves", times}};
      into->add("launch", kLaunchClocks / gpu.matrix_gigahertz);
      if (how.split > 1) into->add("combining blocks in a second launch", combining);
    }
    return how.split > 1 ? ns + combining : ns;
  }

 private:
  double sum_bytes() const { return static_cast<double>(byte_size(p_.sum)); }
  static CostTerm multiply_term(const TileClocks& c, double scale) {
    CostTerm term = combine(
        "multiplying tiles", Combine::largest, 1,
        {cost_leaf("products", c.products * scale), cost_leaf("shared memory", c.shared * scale),
         cost_leaf("copies to shared memory", c.copied * scale)});
    term.add_if("elements copied one by one", c.elements * scale);
    term.ns = c.multiply * scale;
    return term;
  }

  // Rounds of whole tiles, and then for each block its share of the others' steps, in one part or
  // two.
  double stream_k_ns(const Shape& shape, int64_t tiles, int64_t blocks, CostTerm* into) const {
    int64_t cut = tiles % blocks;
    TileClocks whole = tile_clocks(shape, p_, static_cast<double>(p_.steps), operations_, target_);
    double steps = std::ceil(static_cast<double>(cut * p_.steps) / static_cast<double>(blocks));
    TileClocks share = tile_clocks(shape, p_, steps, 0, target_);
    const GpuLimits& gpu = target_.gpu;
    double outside = 0;
    if (outside_) {  // a tile's blocks are at different steps and read nothing in common
      double lines = static_cast<double>(shape.rows + shape.columns) * 128 * (p_.split ? 2 : 1);
      outside = steps * lines * gpu.matrix_gigahertz / target_.dram_bytes_per_ns;
      share.multiply = std::max(share.multiply, outside);
    }
    double sums = sum_bytes() * static_cast<double>(shape.rows * shape.columns);
    double keep = (cut > 1 ? 2 : 1) * (kTileClocks + sums / gpu.stored_bytes_per_clock);
    double scattered = large_ ? kScattered : 1, rounds = static_cast<double>(tiles / blocks);
    double clocks = rounds * (whole.multiply + whole.finish) + (share.multiply + keep) * scattered;
    double ns = (clocks + kLaunchClocks) / gpu.matrix_gigahertz;
    double combining = combine_ns(sums * static_cast<double>(blocks + cut));
    double total = kClearGain * (ns + combining);
    if (into == nullptr) return total;
    double scale = 1 / gpu.matrix_gigahertz;
    into->factor = kClearGain;
    into->facts = {{"tiles", static_cast<double>(tiles)}, {"rounds", rounds}};
    into->add(multiply_term(whole, rounds * scale));
    into->add("finishing tiles", rounds * whole.finish * scale);
    share.elements = std::max(share.elements, outside);
    into->add(multiply_term(share, scattered * scale));
    into->parts.back().name = "a block's share of cut tiles";
    into->add("keeping sums of cut tiles", keep * scattered * scale);
    into->add("launch", kLaunchClocks * scale);
    into->add("combining blocks in a second launch", combining);
    return total;
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

double estimate_gemm(const TensorCoreGemm& schedule, const Product& product, const Piece& piece,
                     const Kernel& kernel, const Target& target, CostTerm* into) {
  TileModel model(product, piece, kernel, target);
  Shape shape{tile_rows(schedule, product), tile_columns(schedule, product)};
  return model.nanoseconds(shape, tile_count(schedule, product),
                           {schedule.split, schedule.cluster, schedule.stream_k}, into);
}

std::vector<Ranked> ranked_tiles(const Product& product, const Piece& piece, const Kernel& kernel,
                                 const Target& target) {
  int64_t batches = 1;
  for (IteratorId u : product.batch) batches = checked_mul(batches, piece.box[u]);
  TileModel model(product, piece, kernel, target);
  std::vector<Ranked> all;
  for (const Shape& shape : kShapes) {
    Splitter rows(product.a, piece, shape.rows), columns(product.b, piece, shape.columns);
    if (rows.best.empty() || columns.best.empty()) continue;
    Ranked r;
    r.schedule.tile.assign(piece.box.size(), 1);
    auto set = [&](const Operand& o, const std::vector<int64_t>& tile) {
      for (size_t i = 0; i < tile.size(); ++i) {
        r.schedule.tile[o.iterators[i]] = tile[i];
      }
    };
    set(product.a, rows.best);
    set(product.b, columns.best);
    for (size_t i = 0; i < product.k.size(); ++i) {
      r.schedule.tile[product.k[i]] = product.k_tile[i];
    }
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
