// CUDA C++ of a matrix product by warps of mma instructions (sm_80 up): one block for each tile, a
// ring of shared-memory stages filled by asynchronous copies of the threads. Serves older chips,
// tensors whose strides or rank bulk copies do not take, and f64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/matrix/matrix_source.h"

namespace tile::cuda {

// One operand's copy into a stage: a matrix of `lines` lines of neighbours in memory, 16 bytes a
// time. Statements and expressions over the variables of the tile and of the step, `line`, and
// `at` (the first element of 16 bytes in its line).
struct ThreadCopy {
  std::string base;       // of type const T*: some readable address
  bool k_major = true;    // lines are rows of k; else lines of rows at one k
  std::string place;      // statements that set `const T* from`, `bool inside` (of the line) and
                          // `int left`: elements of the line's limit from `at` on
  int64_t alignment = 2;  // bytes that every `from` is a multiple of: 1, 2, 4, 8 or 16
};

struct MmaLeaf {
  std::string name;
  std::string parameters;
  // Of both factors; of bytes and of f8 each has its own.
  MatrixType a_type = MatrixType::bf16, b_type = MatrixType::bf16;
  std::string value_type = "f32";      // C name, as MatrixEpilogue::value_type
  bool split = false;                  // of tf32: three products, of what rounding leaves too
  int64_t tile_m = 128, tile_n = 128;  // 64 or 128 each
  int64_t depth = 32;                  // elements of k in a stage: 64 bytes, 128 of f64
  int64_t stages = 4;
  ThreadCopy a, b;
  std::string steps;
  std::string tile_variables;  // statements over `tile`
  std::string step_variables;  // statements over `step`
  std::string cell;            // as MatrixEpilogue::cell without a map
};

int64_t mma_shared_bytes(const MmaLeaf& leaf);
int64_t mma_threads(const MmaLeaf& leaf);
std::string mma_prelude();
std::string mma_source(const MmaLeaf& leaf);

}  // namespace tile::cuda
