// Kernels with a streamed axis on a GPU's tensor cores: which can be computed as blocks of rows
// that blocks of columns (of the streamed axis) pass by. Scores are a product of 16-bit factors;
// weights are made of scores and a running maximum; sums add up weights, or products of weights and
// 16-bit values. (Milakov and Gimelshein, Online normalizer calculation for softmax; Dao et al.,
// FlashAttention.)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/kernel/schedule.h"

namespace tile::gpu {

// A factor whose blocks are copied to shared memory: lines of `line` (rows, or columns), along
// which neighbours are values of `inner`. Iterators of the stage that reads it.
struct StreamedFactor {
  size_t load = 0;
  IteratorId line, inner;
  int64_t extent = 0;          // of `inner`
  std::vector<int64_t> limit;  // of each dimension of the tensor: cells from here on are zero
};

struct StreamForm {
  DType type = DType::none;  // of all factors: f16 or bf16
  RowId row;                 // the row loop that is cut into blocks; a block has one of each other
  int64_t rows = 0, columns = 0;    // extents of that row loop and of the streamed axis
  StreamedFactor query, key;        // of the scores, the product of stage 0
  size_t running = 0, weights = 0;  // stages
  // A stage that adds up weights; with a `column` (its iterator) their products with values.
  struct Sum {
    size_t stage = 0;
    IteratorId column;
    NodeId weight;  // node of its body, of the factors' type: the weight that is multiplied
    StreamedFactor value;
  };
  std::vector<Sum> sums;
};
// Nothing where the kernel is none.
std::optional<StreamForm> stream_form(const Kernel& kernel);

// Elements of a line in shared memory: whole rows of 128 bytes; and those that are multiplied.
int64_t stored_elements(int64_t extent);
int64_t multiplied_elements(int64_t extent);
// Bytes of shared memory that a block has.
int64_t shared_bytes(const GpuStream& schedule, const StreamForm& form);

}  // namespace tile::gpu
