// What every class that builds schedules of one piece knows: the piece, and the operations that its
// reduction is made of.
#pragma once

#include <cstdint>
#include <optional>

#include "core/kernel/forms/dot_products.h"
#include "core/schedule/facts/piece_facts.h"
#include "core/schedule/space/piece/register_tiles.h"

namespace tile {

// The facts must outlive it.
struct TilingContext {
  TilingContext(const PieceFacts& of_piece, const std::optional<DotForm>& with_dot, bool with_amx);

  const PieceFacts& facts;
  const Piece& piece;
  const Target& target;
  const std::optional<DotForm> dot;  // of the schedules being built
  const bool amx;                    // they use registers that hold matrices
  const double bytes;                // that the whole piece touches
  // The reduction whose neighbours a dot packs: the one that steps through memory in the smallest
  // strides; none without a dot.
  const IteratorId dot_iterator;

  int64_t extent(IteratorId u) const { return facts.extent(u); }
  bool is_parallel_dim(IteratorId u) const { return facts.is_parallel_dim(u); }
  // The largest stride of the operands along a reduction.
  int64_t reach(IteratorId u) const;
  IteratorId longest_reduction() const;
  // Step of the tile's outermost loop over u: 1 outside the tile.
  int64_t tile_step(const RegisterTile& t, IteratorId u) const;
};

}  // namespace tile
