// What the stages of a kernel with a streamed axis compute for one cell of a block, read from the
// block's fragments. Private to core/lower/gpu.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/kernel/forms/gpu_stream.h"
#include "core/lower/context/piece_values.h"

namespace tile::lowering {

class StreamValues {
 public:
  StreamValues(const Frame& frame, const gpu::StreamForm& form, const PieceValues& values);

  // Fragments of f32; of each product and each sum by its stage.
  nest::BufferId maximum;
  std::map<size_t, nest::BufferId> products, sums;

  // Where the block is: of the row that it has several of, its first.
  void place_row(RowId row, Expr value) { rows_[row] = std::move(value); }
  void place_columns(Expr first) { column_begin_ = std::move(first); }
  const Expr& row_at(RowId row) const { return rows_[row]; }
  const Expr& row_begin() const { return rows_[form_.row]; }
  const Expr& column_begin() const { return column_begin_; }

  // The iterators of a stage at values of the cut row, the streamed axis and a sum's columns.
  State state(size_t stage, const Expr& row, const Expr& column, const Expr& more) const;
  // The same at a cell of the block: as it is, maybe outside of the rows and of the axis.
  State exact_state(size_t stage, const Expr& row, const Expr& column) const;

  // The one tensor made of the scores that weights and the maximum read; nothing: there are
  // several.
  std::optional<TensorId> only_score() const;
  // What several stages read and is made of one product, of that alone or of others too: the
  // product's fragment may hold it. Nothing: the product is read by several.
  std::optional<TensorId> shared_score(size_t product) const;
  // From now on the fragment holds that tensor's elements.
  void know(TensorId tensor, nest::BufferId fragment) { known_[tensor] = fragment; }
  bool knows(TensorId tensor) const { return known_.contains(tensor); }

  // What the stage computes at the block's cell, before it is aggregated. Columns are those of the
  // streamed axis.
  Value result(size_t stage, const Expr& row, const Expr& column) const;
  // An element that the kernel makes, in f32.
  Value widened(TensorId tensor, const Expr& row, const Expr& column) const;
  // The weight that a sum multiplies, in the factors' type; zero where a condition is negative.
  Value weight(const gpu::StreamForm::Sum& sum, const Expr& row, const Expr& column,
               const std::vector<Expr>& conditions) const;

  // Stages of the tile whose results leave the kernel, and the store of one. Columns are those of
  // the tile's sum.
  std::vector<size_t> stored_in(size_t tile) const;
  nest::Statement stored(size_t stage, const Expr& row, const Expr& column) const;

 private:
  size_t tile_of(size_t stage) const;
  bool is_sum(size_t tile) const { return sums.contains(tile); }
  State cell_state(size_t stage, const Expr& row, const Expr& column) const;
  NodeId translated(Value& into, size_t stage, NodeId root, const Expr& row,
                    const Expr& column) const;
  NodeId made(Value& into, TensorId tensor, const Expr& row, const Expr& column) const;
  NodeId fragment(Value& into, nest::BufferId buffer, const Expr& row, const Expr& column,
                  DType type) const;
  Value without_roundings(Value value) const;
  void choose(Value& v, const std::vector<Expr>& conditions) const;

  const Frame& frame_;
  const gpu::StreamForm& form_;
  const PieceValues& values_;
  RowMap map_;
  std::map<TensorId, size_t> makers_;  // stages
  IdVector<RowId, Expr> rows_;
  Expr column_begin_;
  std::map<TensorId, nest::BufferId> known_;
};

}  // namespace tile::lowering
