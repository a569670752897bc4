// Programs divided among the GPUs of one process, for `tile-gpu-check ranks` and `rank-times`.
#pragma once

#include <cstdint>

namespace tile::test {

// Random programs and gradients under random layouts, column- and row-parallel products and
// stencils on as many ranks as each asks for, against the undivided program. Prints one JSON line
// with what was compared and what failed. Exit status: 0 all agree, 1 some do not, 77 fewer than
// two GPUs.
int check_ranks(uint64_t first, uint64_t count);

// Times on two GPUs, with each kind of overlap in turns, and on one, as a JSON line for each of: an
// all-gather with the product behind it, and a product with the reduce-scatter behind it, in bf16,
// of matrices with 2 * size, size / 2 and size / 16 rows, `size` terms and columns; a stencil of
// seven points in f32 on (size / 16) ** 3 cells of each GPU, with halos. Exit status: 0, or 77
// fewer than two GPUs.
int time_ranks(int64_t size);

}  // namespace tile::test
