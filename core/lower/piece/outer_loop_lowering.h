// The outer loops of a piece, parallel and serial. Where a tile does not divide its block the
// remainder is a second version of the code inside, with constant sizes of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/lower/piece/packing_lowering.h"
#include "core/lower/piece/parametric_lowering.h"
#include "core/lower/piece/tile_lowering.h"

namespace tile::lowering {

class OuterLoopLowering : PieceForm {
 public:
  OuterLoopLowering(TileParts& parts, PackingLowering& packing, TileLowering& tile)
      : PieceForm(parts), packing_(packing), tile_(tile), parametric_(parts, packing) {}

  // All loops, with a register tile inside.
  nest::Block loops();

  // Of a kernel with rows: the leading loops that its stages share, around what `inside` makes;
  // `before` goes before the loop over the streamed axis, if there is one.
  struct SharedBody {
    Leaf inside;
    nest::Block before;
    bool halves = false;  // all stages do, see halves_rows()
  };
  // `names`: of the loops' variables, by row. `nanoseconds`: what all stages take.
  nest::Block shared_loops(size_t shared, const std::vector<std::string>& names, double nanoseconds,
                           SharedBody body);
  // Of a shared loop over rows of a run-time number: whether the stage is as well off with two
  // blocks of about one size as with a whole one and a small one.
  bool halves_rows(size_t shared) const;
  // The loops behind the shared ones, in a block of rows.
  nest::Block in_rows(const std::vector<Position>& rows, size_t shared);

 private:
  nest::Block parallel_loops();
  nest::Block parallel_tasks(const State& s, const std::vector<Expr>& counts, int64_t typical);
  nest::Block parallel_body(size_t i, State s, const std::vector<Expr>& values);
  nest::Block outer_loops(size_t i, State s);
  nest::Block in_whole_tiles(size_t loop, size_t shared, State s);
  nest::Block outer_loop(size_t i, const State& s);
  // Of a run-time extent, whole blocks and what is left; of rows, blocks of run-time sizes.
  nest::Block open_loop(size_t i, const State& s);
  nest::Block open_rows(size_t i, const State& s);
  // A small rest and the last whole block are then done in halves.
  bool halves(const Loop& l) const;
  Expr whole_blocks(const Loop& l, const Expr& size, bool halved) const;
  // What is left behind the whole blocks, in a first part and a second one, which may be empty.
  using Halves = std::function<nest::Block(const Expr& first, const Expr& second)>;
  nest::Block in_halves(const Loop& l, const Expr& left, const Halves& parts) const;
  nest::Block last_blocks(const Loop& l, const State& s, const Expr& whole, const Leaf& leaf);
  // The block `size` <= the loop's step, `begin` behind that at which the state is.
  nest::Block short_block(const Loop& l, const State& inner, const Expr& begin, const Expr& size,
                          const Leaf& leaf);
  // The register tile's vectors in a block; more than any short blocks have where few sizes of
  // these do: nothing is read again, or the blocks are so many that what is left of one does not
  // show.
  int64_t vectors_in_block(const Loop& l) const;
  // The next loop over the same iterator wants blocks of constant size.
  bool tile_follows(size_t outer) const;
  int64_t grain_of(int64_t tasks) const;

  PackingLowering& packing_;
  TileLowering& tile_;
  ParametricLowering parametric_;
  size_t shared_ = 0;  // leading outer loops around several stages
  SharedBody shared_body_;
  double shared_ns_ = 0;
};

}  // namespace tile::lowering
