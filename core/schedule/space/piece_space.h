// The candidates of one piece, as this folder's files build them. Only they include it.
#pragma once

#include <optional>

#include "core/kernel/forms/amx_tiles.h"
#include "core/schedule/space/space.h"

namespace tile {

class PieceSpace {
 public:
  PieceSpace(const Kernel& kernel, size_t stage, size_t piece, const Target& target,
             const Breadth& breadth)
      : contraction_(kernel.stages[stage].contraction),
        piece_(contraction_.pieces[piece]),
        kernel_(kernel),
        target_(target),
        breadth_(breadth),
        model_(piece_, contraction_, kernel, target) {}
  std::vector<RankedPiece> ranked();

 private:
  int64_t extent(IteratorId u) const { return piece_.box[u]; }
  bool parallel_dim(IteratorId u) const { return piece_.is_parallel(u); }

  // The loops around each of the best register tiles.
  void tiled();
  // Tiles of registers that hold matrices.
  std::vector<RegisterTile> amx_tiles() const;
  // The best tiles by their own cycles, in the simplest order of loops.
  std::vector<RegisterTile> best_tiles();
  // Prefix and suffix reductions and sliding windows: vectors along a parallel dimension that
  // memory has contiguous, or several rows at a time.
  void carried();
  void carried_lanes(const PieceSchedule& plain);
  void chained(PieceSchedule s);
  // Threads where the work is worth them: leading parallel dimensions until there are a few tasks
  // for each.
  void bind_threads(PieceSchedule& s) const;
  bool legal(const PieceSchedule& s) const;
  void consider(PieceSchedule s);
  // The schedule as it is and, where there are operands that are packed once, before all runs, with
  // copies of those in the order of its loops, whatever else it packs.
  void consider(const RegisterTile& t, const PieceSchedule& s);

  // Orders of loops: piece_loops.cpp.
  // The reduction whose neighbours a dot packs: the one that steps through memory in the smallest
  // strides; none without a dot.
  IteratorId dot_iterator() const;
  // The largest stride of the operands along a reduction.
  int64_t reach(IteratorId u) const;
  // Step of the tile's outermost loop over u: 1 outside the tile.
  int64_t tile_step(const RegisterTile& t, IteratorId u) const;
  // Parallel dimensions by decreasing stride in the output; loops of one iteration last.
  std::vector<IteratorId> natural_parallel_dims() const;
  std::vector<Loop> natural_order(const RegisterTile& t) const;
  // A parallel dimension outside the tile that every access has, such as a group: its values are
  // contractions of their own.
  bool shares_nothing(const RegisterTile& t, IteratorId u) const;
  // The natural order, orders in which those parallel dimensions come first or second, and orders
  // in which one tiled parallel dimension moves to either end.
  std::vector<std::vector<Loop>> orders(const RegisterTile& t) const;
  // Reductions, the one with the smallest stride innermost, the vector one last of all.
  std::vector<Loop> reduce_loops(const RegisterTile& t) const;
  // Neighbours among which joined lanes pick are read once and picked from at known places; the
  // taps of a window along the tile's rows share what was picked.
  void write_out_picks(const RegisterTile& t, std::vector<Loop>& loops) const;
  // The tap of a window that is written out so that the tile's rows share what they read, the one
  // that shares most.
  IteratorId written_out_tap(const RegisterTile& t) const;
  // The reduction moves a load from row to row of the tile.
  bool slides_along_rows(const RegisterTile& t, IteratorId reduction) const;
  PieceSchedule with(const RegisterTile& t, std::vector<Loop> outer) const;

  // Blocks for the caches: piece_blocks.cpp.
  // Blocks for the second-level cache: (m block, n block, k block) with both operands packed.
  void blocked(const RegisterTile& t);
  // Multiples of the tile that cut the extent into equal parts of at most a few hundred, a multiple
  // of `share` of them.
  std::vector<int64_t> block_sizes(IteratorId u, int64_t step, int64_t share = 1) const;
  // Depths of a block of the longest reduction; 0: not cut.
  std::vector<int64_t> depths(std::initializer_list<int64_t> targets) const;
  IteratorId longest_reduction() const;
  int64_t resident_rows(const RegisterTile& t, IteratorId m) const;
  // Blocks of rows and, where depth is not 0, of a long reduction: the operand along the vector is
  // packed once, for all blocks of rows; long blocks visit the sums less often.
  void shared_panels(const RegisterTile& t, IteratorId m, int64_t rows, int64_t depth);
  void blocked_by(const RegisterTile& t, IteratorId m, int64_t rows, IteratorId n, int64_t columns,
                  int64_t depth);
  // Operands along the vector alone, such as weights, in panels: all at once before the loops, or
  // the panel of one tile inside the loop over tiles where that is the outermost. And operands of
  // several parallel dimensions as a whole, so that a contraction of permuted tensors reads them in
  // order.
  void panelled(const RegisterTile& t, const PieceSchedule& s);
  // Whether the vector's elements are neighbours in the copy.
  static bool along(const RegisterTile& t, const Packing& p, const PieceSchedule& s);
  // Whether each element of the load is read so often that copying all of it pays.
  bool reused(size_t load) const;
  // A short block of the reduction over long rows: operands are read in the order of memory, or in
  // copies of the block; the partial sums stay in the cache.
  void short_reduction_blocks(const RegisterTile& t);
  void short_reduction_blocks_by(const RegisterTile& t, int64_t width, int64_t depth);
  // Sums of a part of the cells stay in the second-level cache while blocks of the reductions pass
  // by, so that operands are read once, whatever those cells share of them: piece_sums.cpp.
  void kept_sums(const RegisterTile& t);
  bool shares_operands() const;
  void kept_sums_of(const RegisterTile& t, const std::vector<Loop>& shares);
  // Shares of rows that threads cannot divide equally, for each value of a parallel dimension
  // outside the tile.
  void outer_shares(const RegisterTile& t, const Loop& row);
  // Parts of the parallel dimension in whole tiles, one or two for each thread.
  std::vector<Loop> shares_of(const RegisterTile& t, IteratorId u) const;
  void consider_sums(const RegisterTile& t, const std::vector<Loop>& shares,
                     const std::vector<Loop>& blocks);
  // Blocks of the reductions, those that reach furthest first, of which the cells of `range` need
  // no more than so many bytes; none where all fit or nothing does.
  std::vector<Loop> passing_blocks(const RegisterTile& t, IterationBox range, int64_t most) const;
  // Blocks of a transposed copy: every line of both sides is used up while it is in the cache.
  void blocked_copy(const RegisterTile& t);
  void blocked_tiles(const RegisterTile& t, IteratorId along);
  // The block of the transposed operand is read row by row into a small buffer first, so that the
  // strided reads find it close by.
  void copy_through_buffer(const RegisterTile& t, IteratorId along, int64_t block);

  // Copies of operands: piece_packing.cpp.
  // Values of the parallel dimension that the copy has together.
  int64_t panel_of(const RegisterTile& t, IteratorId u) const;
  // Operands along the vector: panels of the tile's width; others: rows as the reduction reads
  // them.
  void pack_operands(const RegisterTile& t, PieceSchedule& s, size_t level) const;
  // Whether the copy of the whole operand would be laid out as the operand is.
  bool in_place(const Packing& p, const PieceModel::AccessModel& a) const;
  // Lanes along a reduction that memory has apart: vectors of it side by side, for each those of
  // the tile's rows. Empty: they are neighbours already.
  std::vector<Loop> packed_lanes(const RegisterTile& t, const PieceSchedule& s,
                                 const std::vector<Loop>& inside,
                                 const PieceModel::AccessModel& a) const;
  std::vector<Loop> packed_order(const RegisterTile& t, const PieceSchedule& s,
                                 const std::vector<Loop>& inside,
                                 const PieceModel::AccessModel& a) const;

  const Contraction& contraction_;
  const Piece& piece_;
  const Kernel& kernel_;
  const Target& target_;
  Breadth breadth_;
  PieceModel model_;
  std::optional<DotForm> dot_;  // of the schedules being built
  bool tiles_ = false;          // they use registers that hold matrices
  std::vector<RankedPiece> ranked_;
};

}  // namespace tile
