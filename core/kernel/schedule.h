// Schedule: how a kernel's loops are tiled, ordered and bound. Plain data: printed, parsed, checked
// for legality, stored as tuning records.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/kernel/kernel.h"
#include "core/target/target.h"

namespace tile {

// `dot`: a reduction's last loop, of two or four iterations, which are one operation on packed
// neighbours (core/kernel/forms/dot_products.h); it stands last in `reduce`. `matrix`: the rows and
// the columns of a tile register's sums, the last two loops of `tile` in this order, and the groups
// of neighbours that one instruction multiplies, the loop before the dot
// (core/kernel/forms/amx_tiles.h).
enum class Binding : uint8_t { serial, parallel, unroll, vector, dot, matrix };

// One loop over an iterator. The loops of one iterator, outermost first, have strictly decreasing
// steps, the last step 1: a loop with step s visits the multiples of s inside the block of the loop
// before it (the whole box for the first); the next loop then covers the s values from there, cut
// at the box.
struct Loop {
  IteratorId iterator{0};
  int64_t step = 1;
  Binding binding = Binding::serial;
  friend bool operator==(const Loop&, const Loop&) = default;
};

// A copy of one load's block into a private dense buffer, made inside the first `level` outer
// loops. The dimensions of the copy are the iterators that the access uses inside that level, in
// `order` (the last one contiguous). Fuses transposition, widening and window gathering.
struct Packing {
  size_t load = 0;
  size_t level = 0;
  std::vector<Loop> order;  // iterator and step as in the loops: one entry per packed dimension
  friend bool operator==(const Packing&, const Packing&) = default;
};

// GPU forms of a piece, which stand instead of loops. Parallel dimensions and reductions each count
// as one index, in an order that the accesses choose (the one with the smallest stride fastest).
//
// A block has (cells of the parallel dimensions) * lanes threads; each thread reduces every
// lanes-th value, and the lanes are combined through shared memory.
struct GpuReduction {
  int64_t parallel_dims = 1;
  int64_t lanes = 1;
  int64_t vector = 1;  // neighbours that one thread takes at once…
  bool vector_parallel_dims =
      false;  // …among the parallel dimensions, else among the reduction's values
  bool parallel_dims_fastest = false;  // neighbouring threads take neighbouring cells
  int64_t split = 1;  // blocks that share a reduction; a second launch combines their results
  friend bool operator==(const GpuReduction&, const GpuReduction&) = default;
};
// A sum of products: tiles of m x n cells and k terms staged in shared memory, thread_m x thread_n
// cells in the registers of each thread.
struct SimtGemm {
  int64_t m = 128;
  int64_t n = 128;
  int64_t k = 8;
  int64_t thread_m = 8;
  int64_t thread_n = 8;
  int64_t split = 1;  // blocks that share the terms; a second launch adds their sums
  // Tiles of a factor in shared memory. With more than two they are copied there without passing
  // through registers, `stages - 1` steps ahead, where the copy is one of neighbours as they are.
  int64_t stages = 2;
  bool ahead =
      false;  // a thread reads its part of a term while it multiplies that of the one before
  friend bool operator==(const SimtGemm&, const SimtGemm&) = default;
};
// A matrix product on tensor cores (core/kernel/forms/tensor_core_gemm.h), instead of loops: `tile`
// iterators of each kind make the tile of a block; one reduction is cut into steps, the others are
// loops.
struct TensorCoreGemm {
  IterationBox tile;    // 1 where the block takes one value
  int64_t stages = 0;   // steps that the copies run ahead
  int64_t group = 8;    // rows of tiles that are walked together, for the cache
  int64_t split = 1;    // tiles that share a tile's steps; a second launch adds their sums
  int64_t cluster = 1;  // neighbouring blocks that share a tile's steps; one adds their sums
  // Blocks that share all steps of the tiles that are too few for a round of one tile each: a block
  // has some of one tile's and maybe some of the next's; a second launch adds up the cut tiles'
  // sums.
  int64_t stream_k = 1;
  friend bool operator==(const TensorCoreGemm&, const TensorCoreGemm&) = default;
};

// A prefix or suffix reduction: `lanes` threads walk along the carried parallel dimension together,
// `vector` neighbouring cells each.
struct GpuScan {
  int64_t lanes = 256;
  int64_t vector = 4;
  friend bool operator==(const GpuScan&, const GpuScan&) = default;
};
// A copy whose input and output run along different parallel dimensions: square tiles go through
// shared memory.
struct GpuTranspose {
  int64_t tile = 32;
  int64_t rows = 8;  // of a tile, for each of which a block has `tile` threads
  friend bool operator==(const GpuTranspose&, const GpuTranspose&) = default;
};
using GpuForm =
    std::variant<std::monostate, GpuReduction, SimtGemm, GpuScan, GpuTranspose, TensorCoreGemm>;

// A kernel with row loops on a GPU: `rows` rows for each block, `lanes` threads for each row, which
// hold its elements in registers, `vector` neighbours at a time. With `blocks` > 1 a cluster of so
// many blocks holds one row.
struct GpuLines {
  int64_t lanes = 256;
  int64_t rows = 1;
  int64_t vector = 1;
  int64_t blocks = 1;
  friend bool operator==(const GpuLines&, const GpuLines&) = default;
};

// A kernel with a streamed axis on a GPU's tensor cores (core/kernel/forms/gpu_stream.h): a block
// has `rows` values of one row loop and one of each other; blocks of `columns` values of the axis
// pass by in shared memory, copied `stages` - 1 blocks ahead.
struct GpuStream {
  int64_t rows = 128;
  int64_t columns = 64;
  int64_t stages = 2;
  friend bool operator==(const GpuStream&, const GpuStream&) = default;
};

// Loop structure of one piece:
//   outer…  { initialise accumulators; reduce… { tile… accumulate }; tile… finish, epilogue, store
//   }
// `outer` holds parallel dimensions, and reductions when the reduction is blocked (then partial
// sums live in the output between blocks). `tile` holds parallel dimensions only, bound unroll or
// vector: the register tile. Its last two loops may both be vector loops: one vector takes the
// pairs of both parallel dimensions, all values of the last one for each of the other's (few
// channels of several groups). A vector loop over a reduction stands last in `reduce`: lanes are
// combined when the tile is finished. Or they are matrix loops, and the others of the tile run over
// registers of sums.
struct PieceSchedule {
  std::vector<Loop> outer;
  std::vector<Loop> reduce;
  std::vector<Loop> tile;
  std::vector<Packing> packings;
  // The parallel dimension along which a prefix or suffix reduction is carried
  // (core/kernel/forms/scan.h): it and the reduction have no loops above; inside the outer loops
  // one serial loop visits the cells in order, adding each new value to the accumulators of the
  // cell before.
  IteratorId carried;
  // GPU only; there are then no loops, packings or carried parallel dimension.
  GpuForm gpu_form;

  bool has_gpu_form() const { return !std::holds_alternative<std::monostate>(gpu_form); }
  // The form if it is one of this kind, else null.
  template <typename Form>
  const Form* form() const {
    return std::get_if<Form>(&gpu_form);
  }
  template <typename Form>
  Form* form() {
    return std::get_if<Form>(&gpu_form);
  }
  friend bool operator==(const PieceSchedule&, const PieceSchedule&) = default;
};

struct Schedule {
  std::vector<std::vector<PieceSchedule>> stages;  // [stage][piece]; attached stages have none
  // Of a kernel with row loops: how many leading outer loops all its stages share. The first loop
  // of a stage's own over the same iterator need not divide their step where it is the only outer
  // one. They run over
  // rows only, all of them, and agree in row, step and binding; no outer loop behind them is
  // parallel, and no operand is packed outside them. The streamed axis has one of them, the last,
  // serial; a reduction over it has no other outer loop over reductions.
  size_t shared = 0;
  std::optional<GpuLines> gpu_lines;    // then the stages have no loops
  std::optional<GpuStream> gpu_stream;  // then the stages have no loops
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

std::string print(const Schedule& schedule);
Schedule parse_schedule(std::string_view text);

}  // namespace tile
