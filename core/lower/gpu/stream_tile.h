// What a block of rows that blocks of columns pass by consists of: where it is, its copies to
// shared memory, loops over its fragments, and the conditions of its cells. Private to
// core/lower/gpu.
#pragma once

#include <functional>
#include <vector>

#include "core/kernel/forms/gpu_stream.h"
#include "core/kernel/stream.h"
#include "core/lower/gpu/definitions.h"
#include "core/lower/gpu/gpu_lowering.h"
#include "core/lower/gpu/stream_values.h"

namespace tile::lowering {

class StreamTile {
 public:
  StreamTile(Frame& frame, const Schedule& schedule);

 protected:
  const Piece& piece(size_t s) const { return frame_.kernel.stages[s].contraction.pieces[0]; }
  nest::BufferId add(const char* name, DType type, nest::Scope scope, int64_t rows,
                     int64_t columns);
  nest::BufferId fragment(const char* name, int64_t columns, DType type = DType::f32) {
    return add(name, type, nest::Scope::fragment, g_.rows, columns);
  }
  nest::BufferId shared(const char* name, int64_t lines, int64_t extent) {
    return add(name, form_.type, nest::Scope::shared, lines, gpu::multiplied_elements(extent));
  }

  // Defines where the block is, and its first step and their number; returns the number of blocks.
  int64_t place_block(Definitions& d);
  // Lines of a factor from the given values of the iterators on.
  nest::Copy copy(size_t stage, const gpu::StreamedFactor& f, nest::BufferId to, int64_t lines,
                  const Expr& row, const Expr& column) const;

  using CellBody = std::function<nest::Block(const Expr& row, const Expr& column)>;
  using RowBody = std::function<nest::Block(const Expr& row)>;
  nest::Block rows(const RowBody& inside) const;
  nest::Block cells(int64_t columns, const CellBody& inside) const;
  // A row's columns one after the other.
  nest::Block along(const Expr& row, const CellBody& inside) const;

  // Conditions that are all >= 0 exactly where the cell has a point.
  std::vector<Expr> conditions_at(const Expr& row, const Expr& column) const;
  // What is done for a cell, tested in blocks that have cells without a point.
  nest::Block tested(const std::function<nest::Block(bool tests)>& make) const;
  // The results of a tile that leave the kernel.
  nest::Block stored_results(size_t tile, int64_t columns, int64_t extent) const;

  Frame& frame_;
  const GpuStream& g_;
  const gpu::StreamForm form_;
  PieceLowering first_;
  StreamValues values_;
  std::vector<nest::BufferId> buffers_;
  Expr first_step_, steps_;

 private:
  Expr bound_value(const StreamBound& b) const;
  void bound_steps(const std::vector<std::vector<StreamBound>>& ends,
                   const std::vector<std::vector<StreamBound>>& begins, Definitions& d);
  std::vector<Expr> whole_block() const;
};

// Small statements of a block.
nest::Access at(nest::BufferId buffer, const Expr& row, const Expr& column);
nest::Access at(nest::BufferId buffer, const Expr& row);
nest::Statement store(nest::Access target, Value value,
                      nest::StoreKind kind = nest::StoreKind::assign);
Value number(double x);
Value element(nest::Access access);

}  // namespace tile::lowering
