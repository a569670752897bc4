// The innermost statement of a sum that packed neighbours make, its operands, and the correction of
// flipped signs.
#pragma once

#include "core/lower/context/piece_values.h"
#include "core/lower/tile/accumulators.h"

namespace tile::lowering {

class DotLowering {
 public:
  DotLowering(const PieceContext& context, const PieceValues& values,
              const Accumulators& accumulators)
      : c_(context), values_(values), accumulators_(accumulators) {}

  nest::Store dot(const State& s) const;
  // The neighbours from s on of which `present` exist, the others zero.
  NodeId packed_group(Value& into, size_t load, int64_t present, const State& s) const;
  State at_neighbour(int64_t i, const State& s) const;
  // Nothing where no sign is flipped.
  nest::Block start_corrections(const State& s) const;
  nest::Block add_corrections(const State& s) const;
  nest::Block subtract_corrections(const State& s) const;

 private:
  NodeId dot_operand(Value& into, size_t load, const State& s) const;
  DType dot_element(size_t load) const;
  nest::Access correction(const State& s) const;

  const PieceContext& c_;
  const PieceValues& values_;
  const Accumulators& accumulators_;
};

}  // namespace tile::lowering
