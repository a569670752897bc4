// Sizes in the shared memory and registers of a kernel on Hopper's tensor cores, and the pieces
// that its text is made of. Used by the files that print it only.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cuda/matrix/matrix_source.h"
#include "backends/cuda/matrix/text_pieces.h"

namespace tile::cuda {

constexpr int64_t kPanelBytes = 64 * 128;  // of the result, staged in shared memory

// Of one part of an operand of so many rows; of all of A; of a stage; of all panels.
int64_t part_bytes(const MatrixLeaf& l, int64_t rows);
int64_t a_bytes(const MatrixLeaf& l);
int64_t stage_bytes(const MatrixLeaf& l);
int64_t panel_bytes(const MatrixLeaf& l);
// Warpgroups that share a tile's rows, and register tiles of 64 rows that each holds.
int64_t sharing(const MatrixLeaf& l);
int64_t row_blocks(const MatrixLeaf& l);
// What a block finishes: all columns of its tile, or its part of them.
int64_t own_columns(const MatrixLeaf& l);

// The pieces that all parts of the text use:
//   name columns sum_type value_type registers (of one register tile) blocks (register tiles)
//   cluster stages first_block (the warpgroup's first register tile) first_column (of the block's)
//   steps first_step end_step tile_variables step_variables
TextPieces common_pieces(const MatrixLeaf& l);

// What a consumer does with the sums of a tile (matrix_epilogue.cpp).
std::string finish_tile(const MatrixLeaf& l);

}  // namespace tile::cuda
