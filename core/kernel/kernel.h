// Kernel: what is compiled and launched as one. Stages are normalized contractions; a stage may be
// attached to an earlier one, computed where that one's register tile is finished (epilogue
// fusion). Several stages with loops of their own share row loops (softmax, normalisation): for
// each row, or block of rows, they run one after the other. Inside the row loops they may share one
// loop over blocks of another axis too (attention): what they make there lives for a block, and
// what they reduce over that axis is carried from block to block.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/bound.h"
#include "core/target/target.h"

namespace tile {

using StageId = Id<struct StageTag>;  // the position of a stage in its kernel
using RowId = Id<struct RowTag>;      // a row loop; the streamed axis counts as the last

// Where a stage's result lives. `registers`: only inside the tile that computes it. `row`: in
// private memory for the rows that the shared loops visit, read by later stages of the kernel.
enum class Residence : uint8_t { registers, row, global };

struct KernelStage {
  Contraction contraction;  // normalized
  // None: has loops of its own. Otherwise the stage in whose register tile this one is computed: a
  // pointwise contraction whose load of that stage's result is at the same cell.
  StageId attach;
  Residence residence = Residence::global;
  // Of a stage with loops of its own in a kernel with row loops: for each row loop the parallel
  // dimension that it is. All such stages name the same number of rows, with equal extents; each
  // has one piece and covers its output. Empty: the kernel has no row loops. What one stage makes
  // and another with loops of its own reads (a result `row` or `global`) is made and read at the
  // same row: for each row loop one dimension is that row, alone, in the store as in every such
  // load. Attached stages' cells are those of the tile that they are attached to.
  IdVector<RowId, IteratorId> rows;
  // Of a stage with loops of its own in a kernel whose row loops share a loop over blocks of one
  // more axis inside them: the iterator that runs over that axis, a parallel dimension or a
  // reduction. All such stages name one, with equal extents, or none. A result that has the
  // axis lives for a block of it (never `global`); one reduced over it is known when the last block
  // is done, except a running maximum, which stages behind it read in every block.
  IteratorId stream;
  // Of a sum over the streamed axis whose terms are multiples of exp(x - m) for a running maximum
  // m: the stage that makes m. Where a block raises m from a to b, the sum so far is multiplied
  // with exp(a - b), with 0 where a is -inf.
  StageId rescale;
};

struct Kernel {
  std::string name;
  IdVector<StageId, KernelStage> stages;  // in order; stage 0 is never attached
  // The tensors that the stages name by position, with BoundProgram's numbering.
  BoundTensors tensors;
  // By TensorId, for tensors whose adjacent dimensions group() has merged (a kernel that walks them
  // as one has fewer loops): the shape that the program gives them. Empty: as in `tensors`.
  IdVector<TensorId, Shape> shapes;
  // By TensorId, for tensors of which the kernel has a part (narrow_arguments): the number of the
  // part's first element among the dense ones of the program's tensor. Empty: all are whole.
  IdVector<TensorId, int64_t> begins;
  std::vector<TensorId> reads;   // global tensors read, first use first
  std::vector<TensorId> writes;  // global tensors written
};

// What an iterator of a piece does, derived from the accesses alone, never from names
// (core/README.md). Two-operand products use all roles; others batch/reduction/pointwise.
enum class Role : uint8_t {
  batch,      // a parallel dimension present in every load
  m,          // a parallel dimension in the first of two multiplied loads only
  n,          // a parallel dimension in the second only
  k,          // a reduction in both
  window,     // a reduction that shares an index expression with a parallel dimension (taps of a
              // convolution)
  reduction,  // any other reduction
  outer,      // a parallel dimension in no load (broadcast of a constant)
};

enum class KernelClass : uint8_t {
  pointwise,  // no reduction
  matrix,     // sum of a product of two loads with m or n and k
  windowed,   // matrix or reduction with window iterators (convolution, pooling, stencil)
  reduction,  // any other aggregation over reduction iterators
  scan,       // a reduction bounded by a parallel dimension (triangular)
  copy,       // pointwise with one load and an empty body
};
std::string_view to_string(KernelClass c);
std::string_view to_string(Role r);

struct PieceClass {
  KernelClass kind = KernelClass::pointwise;
  IdVector<IteratorId, Role> roles;
};
PieceClass classify(const Piece& piece, const Contraction& contraction,
                    const BoundTensors& tensors);

// The number of row loops that the stages with loops of their own share; 0: none.
size_t row_loops(const Kernel& kernel);
// Which row loop runs over what, if one does. An attached stage's iterators are those of its tile.
struct RowMap {
  std::map<TensorId, std::vector<RowId>> dimensions;  // of each tensor that the kernel makes
  IdVector<StageId, IdVector<IteratorId, RowId>> iterators;
};
RowMap row_map(const Kernel& kernel);

std::string print(const Kernel& kernel);
Kernel parse_kernel(SourcePtr source);
void verify(const Kernel& kernel);  // throws InternalError

// What a program is launched as. Sort, Scatter and repeats stay statements of their own.
using Step = std::variant<Kernel, Sort, Scatter, BoundRepeat>;

}  // namespace tile
