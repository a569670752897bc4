// Products on tensor cores: which pieces can be computed as matrix tiles whose operands come into
// shared memory as boxes. On Hopper boxes come by bulk copies
// where those take the tensors as they lie in memory, elsewhere by the threads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/kernel/argument_layout.h"
#include "core/kernel/schedule.h"

namespace tile::tensor_cores {

constexpr int64_t kRowBytes = 128;       // of a swizzled row in shared memory
constexpr int64_t kThreadRowBytes = 64;  // of a row of a step that threads copy

// One of the two multiplied loads (of a split product: the values that tf32 holds). In shared
// memory its rows (of m or n) hold 128 bytes of k, or, where neighbours in memory are neighbouring
// rows, it is transposed.
struct Operand {
  size_t load = 0;
  // Of bytes each factor has its own sign, of 8-bit floats its own format, else both are of one
  // type.
  DType type = DType::f32;
  bool k_inside = true;  // neighbours in memory differ in k
  // Its m or n, outermost first as in the tile's rows or columns.
  std::vector<IteratorId> iterators;
  std::vector<int64_t> most;   // of each of them: the values that a box can span
  std::vector<int64_t> limit;  // of each dimension of the tensor: cells from here on are zero
};

// A piece as a matrix product: rows of `a`, columns of `b`.
struct Product {
  // Of sums: f32 of f8, f16, bf16 and f32; f64 of f64; i32 or u32, which wrap, of bytes.
  DType sum = DType::f32;
  bool bulk = true;  // boxes come by bulk copies
  Operand a, b;
  // The reductions that the steps cut, outermost first as in a step's boxes, and how many values of
  // each a step has: one where neighbours in memory differ in it, else as many as boxes can span.
  std::vector<IteratorId> k;
  std::vector<int64_t> k_tile;
  int64_t depth =
      0;  // of a step, all of its terms: 128 bytes, or 64 where threads copy all but f64
  int64_t steps = 1;
  int64_t alignment = 16;  // in bytes, of lines of neighbours; less than 4: slow for threads
  // Of f32: each factor as two values of tf32. Threads split them; bulk copies bring what load 2
  // has of load 0, and 3 of 1.
  bool split = false;
  // Sums that wgmma makes of f8 are short of f32's bits: those of each step are added up apart.
  bool short_sums = false;
  IterationBox box;  // the piece's
  // Parallel dimensions in neither a's nor b's list: a tile has one value of each.
  std::vector<IteratorId> batch;
  std::vector<IteratorId> around;  // the other reductions: loops around the steps
};

// Of a row of a step.
inline int64_t row_bytes(const Product& product) {
  return product.depth * static_cast<int64_t>(byte_size(product.a.type));
}

// nullopt where the piece is no such product on the target, or a box cannot be copied from the
// tensors as they lie in memory.
std::optional<Product> product_of(const Piece& piece, const Contraction& c, const Kernel& kernel,
                                  const Target& target, const ArgumentLayouts& layouts);

int64_t tile_rows(const TensorCoreGemm& schedule, const Product& product);
int64_t tile_columns(const TensorCoreGemm& schedule, const Product& product);
int64_t tile_count(const TensorCoreGemm& schedule, const Product& product);
// Of a stream: the last tiles, whose steps its blocks share.
int64_t cut_tiles(const TensorCoreGemm& schedule, const Product& product);

}  // namespace tile::tensor_cores
