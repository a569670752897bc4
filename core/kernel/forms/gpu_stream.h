// Kernels with a streamed axis on a GPU: which can be computed as blocks of rows that blocks of
// columns (of the streamed axis) pass by. Scores are products of 16-bit factors, on tensor cores,
// or of f32 ones, by the threads; weights are made of them, and of a running maximum if there is
// one; sums add up weights, or products of weights and values of the factors' type. (Milakov and
// Gimelshein, Online normalizer calculation for softmax; Dao et al., FlashAttention, whose backward
// pass has the form without a maximum.)
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/kernel/schedule.h"

namespace tile::gpu {

constexpr int64_t kMostExtent = 256;  // of a factor's lines and of a sum's columns

// A factor whose blocks are copied to shared memory: lines of `line` (rows, or columns), along
// which neighbours are values of `inner`. Iterators of the stage that reads it.
struct StreamedFactor {
  size_t load = 0;
  IteratorId line, inner;
  int64_t extent = 0;          // of `inner`
  std::vector<int64_t> limit;  // of each dimension of the tensor: cells from here on are zero
};

struct StreamForm {
  DType type = DType::none;  // of all factors: f16, bf16 or f32
  RowId row;                 // the row loop that is cut into blocks; a block has one of each other
  int64_t rows = 0, columns = 0;  // extents of that row loop and of the streamed axis
  // Blocks in shared memory, each read by one product or more: of rows, which stay, and of columns,
  // which pass by. A factor as the stage reads it.
  struct Block {
    size_t stage = 0;
    StreamedFactor factor;
    bool of_rows = false;
  };
  std::vector<Block> blocks;
  // A stage that makes scores: for each row and column the product of their lines.
  struct Product {
    size_t stage = 0;
    StreamedFactor row, column;
    size_t row_block = 0, column_block = 0;
  };
  std::vector<Product> products;
  size_t running = 0, weights = 0;  // stages, where there is a running maximum; else 0
  // A stage that adds up weights; with a `column` (its iterator) their products with values.
  struct Sum {
    size_t stage = 0;
    IteratorId column;
    NodeId weight;  // node of its body: the weight that is multiplied, of the factors' type or f32
    StreamedFactor value;
    size_t block = 0;  // that holds the values
  };
  std::vector<Sum> sums;

  // The stage whose conditions, which all sums have, bound the columns of a row.
  size_t bounded() const { return running > 0 ? running : sums[0].stage; }
  // Threads multiply, since tensor cores would round the factors.
  bool by_threads() const { return type == DType::f32; }
};
// Nothing where the kernel is none.
std::optional<StreamForm> stream_form(const Kernel& kernel);

// The two factors of type f16 or bf16 whose product, exact in f32, the body is.
std::optional<std::pair<NodeId, NodeId>> narrow_product(const Body& body);
// The same, or two factors of type f32.
std::optional<std::pair<NodeId, NodeId>> score_product(const Body& body);
// A factor of f16 or bf16 and one of f32, where the body is their product rounded to that type. The
// other may be rounded instead: the bound of the term's error is the same, as long as the type has
// its exponent.
struct Factors {
  NodeId exact, rounded;
};
std::optional<Factors> rounded_product(const Body& body);

// Elements of a line in shared memory: whole rows of 128 bytes; and those that are multiplied.
int64_t stored_elements(int64_t extent, DType type);
int64_t multiplied_elements(int64_t extent);
// Where threads multiply, a warp has eight times as many rows as this, and a lane these rows of
// each block of scores and of each sum: four, so that an element from shared memory serves four
// multiply-adds, or two where the sums would need too many registers. `columns`: of all products'
// blocks of scores and all sums together.
int64_t rows_of_a_lane(int64_t columns);
int64_t multiplied_columns(const GpuStream& schedule, const StreamForm& form);
constexpr int64_t kRowLanes = 8;  // lanes of a warp that have different rows
// Bytes of shared memory that a block has.
int64_t shared_bytes(const GpuStream& schedule, const StreamForm& form);

}  // namespace tile::gpu
