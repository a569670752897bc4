// Results of a register tile: the finished accumulators, rounded to their type, and the stages
// attached to it.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "core/lower/context/piece_values.h"
#include "core/lower/tile/accumulators.h"

namespace tile::lowering {

class TileResults {
 public:
  TileResults(const PieceContext& context, const PieceValues& values,
              const Accumulators& accumulators)
      : c_(context), values_(values), accumulators_(accumulators) {}

  // Finds the stages that are computed in this one's tile. With `keep_values`, results that several
  // statements read get buffers of their own.
  void find_attached(bool keep_values = true);
  void forget_attached();
  // Nothing is made of the results but the tensor itself.
  bool is_plain() const { return attached_.empty() && register_values_.empty(); }
  // Of the accumulators and of results that are kept.
  nest::Block allocations() const;

  nest::Block results(const State& s);
  // The same under the parallel dimensions' own conditions, for forms whose loops enforce none.
  nest::Block owned_results(const State& s);

 private:
  struct Made {
    std::vector<Expr> cell;               // where the tensor's element goes
    std::function<NodeId(Value&)> value;  // the element, rounded to the tensor's type
  };
  NodeId main_value(Value& into, size_t output, const State& s) const;
  void attached_results(nest::Block& out, const Contraction& c, const State& s);
  void store_made(nest::Block& out, TensorId tensor, const State& s, Made made);
  State attached_state(const Piece& piece) const;
  int uses_of(TensorId tensor) const;

  const PieceContext& c_;
  const PieceValues& values_;
  const Accumulators& accumulators_;
  std::vector<size_t> attached_;
  std::map<TensorId, nest::BufferId>
      register_values_;            // results that several statements of the tile read
  std::map<TensorId, Made> made_;  // results of the tile being generated
};

}  // namespace tile::lowering
