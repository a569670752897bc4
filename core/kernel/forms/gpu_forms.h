// What the GPU forms of a piece are made of: flattened indices, the operands of a product.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/target/target.h"

namespace tile::gpu {

// Several iterators counted as one index, the last fastest.
struct FlatIndex {
  std::vector<size_t> iterators;
  int64_t count = 1;
  // Extent of the fastest iterator, which neighbours share; 1 without iterators.
  int64_t fastest = 1;
};
// By decreasing stride: parallel dimensions in the first output, reductions in the loads.
FlatIndex flat_parallel_dims(const Piece& piece, const Kernel& kernel);
FlatIndex flat_reductions(const Piece& piece, const Kernel& kernel);
// Elements between neighbouring values of an iterator in a dense tensor (0: not used; of rational
// forms the nearest integer).
int64_t stride_of(const Access& access, size_t iterator, const Kernel& kernel);

// The body as a product x * y of what depends on the parallel dimensions m and n. The conditions of
// the domain each belong to one of the two, or to the cells of the result.
struct MatrixForm {
  NodeId x;
  NodeId y;
  FlatIndex batch, m, n, k;
  // Positions in the piece's constraints; those without m and n are in both.
  std::vector<size_t> x_conditions, y_conditions;
  // Of parallel dimensions alone, and of more than one factor knows: a cell outside sums nothing.
  std::vector<size_t> cell_conditions;
  // A point can be skipped whose factors are both staged.
  bool skips = false;
  bool x_along_k = false;  // neighbours in memory are neighbours in k, else in m
  bool y_along_k = false;
};
std::optional<MatrixForm> matrix_form(const Piece& piece, const Contraction& contraction,
                                      const Kernel& kernel);

// Whether tiles of the product's first or second factor hold elements of a tensor as they lie,
// which nobody has to look at on their way: they can be copied asynchronously.
bool copies_factor(bool first, const MatrixForm& form, const Piece& piece, const Contraction& c,
                   const Kernel& kernel, const Target& target);

// A kernel with row loops whose stages all run over the same line of elements of each row: they
// reduce it, or compute at each position from what others made at that position or for the row.
struct LineForm {
  std::vector<int64_t> rows;  // extents
  int64_t row_count = 1;
  int64_t count = 1;    // elements of a line
  int64_t fastest = 1;  // extent of its fastest iterator
  // Neighbours in memory are neighbouring rows, not neighbours of a line (batch statistics of the
  // innermost dimension): neighbouring threads then take neighbouring rows.
  bool rows_are_neighbours = false;
  std::vector<FlatIndex> lines;   // of each stage with loops of its own
  std::vector<TensorId> kept;     // results that are lines, and live for the row
  std::vector<TensorId> scalars;  // results that are one value for each row, and live for it
  // Results that are one value for each row and that other kernels need too; `read`: stages that
  // all threads run read them as well.
  struct Stored {
    TensorId tensor;
    bool read = false;
  };
  std::vector<Stored> stored;
  // Tensors read at the same positions by several stages: the stage and load of the first.
  struct Cached {
    TensorId tensor;
    size_t stage = 0, load = 0;
  };
  std::vector<Cached> cached;
};
std::optional<LineForm> line_form(const Kernel& kernel);
// Blocks of a cluster, on any GPU that has them.
constexpr int64_t kMostClusterBlocks = 8;
// Registers of a thread that walks lines beside those of its cells: addresses, counters and sums.
constexpr int64_t kOtherLineRegisters = 40;
int64_t cells_of_a_lane(const LineForm& f, const GpuLines& g);
// Words of the line tensors that one cell needs at once. Of what a stage reads for the last time
// the registers are free for what it makes.
int64_t words_of_a_cell(const LineForm& f, const Kernel& kernel);
// The most registers that the compiler may need: each tensor has registers of its own.
int64_t most_registers(const LineForm& f, const GpuLines& g, const Kernel& kernel);
// The carried parallel dimension is walked by neighbours in memory and every cell's own term is one
// value.
bool scans_lines(const Piece& piece, const Contraction& c, const Kernel& kernel);
// A pointwise piece that reads one tensor along another parallel dimension than it writes.
struct TransposeForm {
  size_t load = 0;
  size_t read = 0,
         written = 0;  // parallel dimensions that are fastest in the load, and in the output
  FlatIndex rest;      // the other parallel dimensions
};
std::optional<TransposeForm> transpose_form(const Piece& piece, const Kernel& kernel);

// Some cell may have no valid point, so that its cell keeps the fill.
bool may_be_empty(const Piece& piece, const Contraction& c);

int64_t shared_bytes(const SimtGemm& g, DType type);

}  // namespace tile::gpu
