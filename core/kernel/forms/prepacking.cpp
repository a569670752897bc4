#include "core/kernel/forms/prepacking.h"

#include <algorithm>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/forms/amx_tiles.h"
#include "core/kernel/forms/dot_products.h"
#include "core/kernel/geometry.h"
#include "core/support/checked.h"

namespace tile {
namespace {

// A window's taps beside its parallel dimensions, and short extents rounded up to a tile, make a
// copy larger than the tensor.
constexpr int64_t kMostGrowth = 4;
constexpr int64_t kSmall = 4096;  // elements of a copy that may grow as it likes

}  // namespace

bool is_fixed(const BoundTensors& tensors, TensorId id) {
  const BoundTensor& t = tensors[id];
  return t.fixed || (t.view_of && tensors[*t.view_of].fixed);
}

std::vector<int64_t> packed_shape(const Packing& packing, const PieceSchedule& schedule,
                                  const Piece& piece, const IterationBox& range) {
  std::optional<TileSizes> tiles;
  if (uses_tiles(schedule)) tiles = tile_sizes(schedule, piece);
  std::vector<int64_t> shape;
  IterationBox left = range;
  for (size_t e = 0; e < packed_loops(packing, schedule); ++e) {
    const Loop& entry = packing.order[e];
    int64_t& block = left[entry.iterator];
    if (tiles && entry.iterator == tiles->k)
      block = ceil_div(block, tiles->terms()) * tiles->terms();
    shape.push_back(std::max<int64_t>(1, ceil_div(block, entry.step)));
    block = entry.step;
  }
  return shape;
}

DType packed_type(const Packing& packing, const PieceSchedule& schedule, const Piece& piece,
                  const BoundTensors& tensors) {
  if (packed_loops(packing, schedule) < packing.order.size()) return DType::u32;
  TensorId id = piece.loads[packing.load].tensor;
  return tensors[id].type;
}

std::optional<Packing> packed_once(const Packing& packing, const PieceSchedule& schedule,
                                   const Piece& piece, const Kernel& kernel, const Target& target) {
  const Access& access = piece.loads[packing.load];
  if (!is_fixed(kernel.tensors, access.tensor)) return std::nullopt;
  if (is_gpu(target) || row_loops(kernel) > 0) return std::nullopt;
  Packing whole{packing.load, 0, {}};
  for (size_t i = 0; i < packing.level; ++i) {
    const Loop& l = schedule.outer[i];
    bool blocks = l.step < piece.box[l.iterator];
    if (blocks && moves_with(access, l.iterator)) {
      whole.order.push_back({l.iterator, l.step, Binding::serial});
    }
  }
  whole.order.insert(whole.order.end(), packing.order.begin(), packing.order.end());
  const Shape& shape = kernel.tensors[access.tensor].shape;
  int64_t elements = 1, most = std::max(kSmall, checked_mul(kMostGrowth, element_count(shape)));
  for (int64_t extent : packed_shape(whole, schedule, piece, piece.box)) {
    if (extent > most / elements) return std::nullopt;
    elements *= extent;
  }
  return whole;
}

std::vector<PrepackedPacking> prepacked_packings(const Kernel& kernel, const Schedule& schedule,
                                                 const Target& target) {
  std::vector<PrepackedPacking> all;
  for (size_t s = 0; s < schedule.stages.size(); ++s) {
    for (size_t p = 0; p < schedule.stages[s].size(); ++p) {
      const PieceSchedule& how = schedule.stages[s][p];
      const Piece& piece = kernel.stages[s].contraction.pieces[p];
      for (const Packing& packing : how.packings) {
        std::optional<Packing> whole = packed_once(packing, how, piece, kernel, target);
        if (whole) all.push_back({s, p, std::move(*whole)});
      }
    }
  }
  return all;
}

}  // namespace tile
