// Loops of the register tile, and the steps that all loops of a piece are made of.
#pragma once

#include <functional>
#include <string>

#include "core/lower/context/piece_context.h"

namespace tile::lowering {

// The state in one iteration of a loop over the iterator.
State entered(const State& s, IteratorId iterator, int64_t step, const Expr& value,
              const Expr& size);
// A loop over [0, count); a single iteration is no loop.
nest::Block counted(const std::string& variable, const Expr& count, nest::LoopKind kind,
                    const std::function<nest::Block(const Expr&)>& body);
// Names a value that is not a plain variable, so that indices stay linear in it.
nest::Block named(const std::string& variable, const Expr& value,
                  const std::function<nest::Block(const Expr&)>& body);
// What the block number `value` has of `size`, cut into blocks of `step`; and how many there are.
Expr cut(int64_t step, const Expr& size, const Expr& value);
Expr blocks_in(const Expr& size, int64_t step);

// The loops of the register tile around a leaf.
nest::Block tile_loops(const PieceContext& c, const State& s, const Leaf& leaf);
// The same, with one iteration of each loop that the load does not move with.
nest::Block tile_loops_of(const PieceContext& c, size_t load, const State& s, const Leaf& leaf);
// `count` steps along the carried parallel dimension in blocks of vectors: in the leaf's state its
// position is the step.
nest::Block in_vectors(const PieceContext& c, const std::string& name, int64_t count,
                       const State& s, const Leaf& leaf);

}  // namespace tile::lowering
