// The accumulators of a register tile: the independent ones of an unrolled reduction, those of a
// vector's lanes, and which cells have had a point.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/lower/context/piece_context.h"

namespace tile::lowering {

class Accumulators {
 public:
  explicit Accumulators(const PieceContext& context) : c_(context) {}

  // A buffer in registers, or in memory where the tile's rows are walked by a loop.
  nest::BufferId register_buffer(const std::string& name, DType type, Shape shape) const;
  // The buffers: made once, alive in each version of the tile.
  void make();
  // By output, those that `accumulator` names; a form may use others for a while.
  const std::vector<nest::BufferId>& buffers() const { return buffers_; }
  void use(std::vector<nest::BufferId> buffers) { buffers_ = std::move(buffers); }
  // What flipped elements of a dot product add to the sums, if anything.
  nest::BufferId correction() const { return correction_; }
  nest::Block allocations() const;

  nest::Access accumulator(size_t output, const State& s) const;
  nest::Access lane_accumulator(size_t output, const State& s) const;
  nest::Access present(const State& s) const;
  nest::Store neutral_store(nest::Access target) const;
  // The independent accumulators beside the first, and those of the lanes: at their neutral
  // element; added into the first accumulator.
  nest::Block initialise_copies(const State& s) const;
  nest::Block combine_copies(const State& s) const;

 private:
  nest::Block over_lanes(const State& s,
                         const std::function<nest::Store(const State&)>& make) const;

  const PieceContext& c_;
  std::vector<nest::BufferId> buffers_, lanes_;
  nest::BufferId present_, correction_;
};

// How accumulators take a term.
nest::StoreKind store_kind(Aggregation aggregation, DType type);
// What they start from.
NodeId neutral(Body& body, Aggregation aggregation, DType type);

}  // namespace tile::lowering
