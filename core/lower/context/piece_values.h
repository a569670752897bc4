// Accesses and bodies of a piece as they stand inside the loops.
#pragma once

#include <utility>
#include <vector>

#include "core/lower/context/body_lowering.h"
#include "core/lower/context/piece_context.h"

namespace tile::lowering {

// Which conditions a statement of a tile is tested for: those without a reduction, which say
// whether a cell is in the domain, or those that terms of its sums need.
enum class Tested : uint8_t { cells, terms };

class PieceValues {
 public:
  explicit PieceValues(const PieceContext& context) : c_(context) {}

  Expr value_of(const Affine& form, const State& s) const;
  // Expressions that are all >= 0 exactly where the condition holds.
  std::vector<Expr> conditions_at(const Constraint& c, const State& s) const;
  std::vector<Expr> conditions_at(const Condition& c, const State& s) const;
  // Expressions that are all >= 0 wherever the condition holds for some cell of the tile.
  std::vector<Expr> possible_at(const Constraint& c, const State& s) const;
  // By how much the form is at least less, and at most more, in the current blocks of its
  // iterators than where they begin.
  struct Reach {
    int64_t down = 0, up = 0;
  };
  Reach reach(const Affine& form, const State& s) const;
  LoopContext loop_context(const Piece& piece, const State& s,
                           const Replacement& replacement) const;
  NodeId element(Value& into, size_t load, const State& s) const;  // that the load reads
  // Copies the node of the piece's body, with what it needs.
  NodeId translate(Value& into, const Piece& piece, NodeId root, const State& s,
                   const Replacement& replacement) const;
  nest::Access output_access(size_t output, const State& s) const;
  // The block under the conditions that points of a tile are tested for.
  nest::Block guarded(nest::Block block, const State& s, Tested tested) const;

  // From now on the fold's results are read from these buffers, which have a tile's shape; nullptr:
  // no fold is known.
  void know_fold(const Node* fold, std::vector<nest::BufferId> buffers);

 private:
  const PieceContext& c_;
  const Node* known_fold_ = nullptr;
  std::vector<nest::BufferId> fold_buffers_;
};

// The cell of the state in a buffer that has a tile's shape.
nest::Access in_tile(nest::BufferId buffer, const State& s);

}  // namespace tile::lowering
