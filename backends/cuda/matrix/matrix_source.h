// CUDA C++ of a matrix product on the tensor cores of Hopper (sm_90a): a persistent grid of tiles,
// one warp that fills a ring of shared-memory stages by bulk tensor copies, and warpgroups that
// multiply them by wgmma. The text includes nothing. What the tile computes is given as text too,
// so that the same leaf serves batched, transposed and convolution-shaped products.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tile::cuda {

enum class MatrixType : uint8_t { f16, bf16, tf32, s8, u8, f64, e4m3, e5m2 };
int64_t element_bytes(MatrixType type);
std::string_view type_name(MatrixType type);  // as instructions spell it
inline bool is_byte(MatrixType type) { return type == MatrixType::s8 || type == MatrixType::u8; }
inline bool is_f8(MatrixType type) { return type == MatrixType::e4m3 || type == MatrixType::e5m2; }
// C name of the type in which products of such factors are added up.
std::string_view sum_type(MatrixType type);

// One bulk copy of a box into an operand's part of a stage. Coordinates are C expressions over the
// variables of the tile and of the step, one for each dimension of the map, innermost first.
struct MatrixBox {
  std::vector<std::string> coordinates;
  int64_t offset = 0;  // in bytes, inside the operand's part; a multiple of 1024
};

// Shared memory holds it in rows of 128 bytes, swizzled: `extent` rows of K if k_major, else blocks
// of 64 elements of the other index, each with `depth` rows.
struct MatrixOperand {
  std::string map;  // the tensor map's parameter name
  bool k_major = true;
  // Equal ones; together they fill the operand's part, or its first rows where no more exist: the
  // results of the others are not stored.
  std::vector<MatrixBox> boxes;  // of a split product those of both parts
  int64_t bytes = 0;             // that the boxes bring
};

// How a finished tile leaves the block.
struct MatrixEpilogue {
  std::string result_type;  // C name of the type stored
  int64_t result_bytes = 2;
  std::string value_type = "f32";  // C name: that of the sums, for sums of u32 their bits
  // Statements for two cells of a row, in the columns 2 * pair and behind it, with their `value`
  // (an array) and the tile's `row` and `pair` (ints) in scope: they store what is made of it,
  // except, where `map` is not empty, the `result` (an array of result_type), which they set.
  std::string cells;
  // Panels of 64 rows and 128 bytes are staged in shared memory and stored as boxes of this map.
  std::string map;
  // Coordinates of the panel whose first cell is `row`, `column`; innermost first.
  std::vector<std::string> coordinates;
  int64_t buffers = 2;  // panels in flight, each warpgroup its own
};

struct MatrixLeaf {
  std::string name;
  std::string parameters;  // of the kernel
  // Of both factors; of bytes and of f8 each has its own.
  MatrixType a_type = MatrixType::bf16, b_type = MatrixType::bf16;
  int64_t tile_m = 128, tile_n = 256;
  int64_t depth = 64;  // elements of K in a stage: 128 bytes
  int64_t stages = 4;
  // Both operands are two of tf32, the second behind the first; three products are added up. The
  // sums of wgmma are cut rather than rounded: those of one step, which are short, are then added
  // rightly.
  bool split = false;
  // Those of f8, short of f32's bits, too: a block of rows after the other, since the sums of the
  // step and of the tile stand in registers.
  bool short_sums = false;
  int64_t consumers = 2;  // warpgroups that multiply
  // The consumers share a tile's rows; or each has a tile of its own, and while one finishes its
  // tile the other multiplies.
  bool in_turn = false;
  // Blocks of a cluster that share a tile's steps, and then its columns: each adds up all sums of
  // some. A block then has one tile only.
  int64_t cluster = 1;
  MatrixOperand a, b;
  // C expressions: the number of tiles, and of steps of K in each.
  std::string tiles, steps;
  std::string tile_variables;  // statements over `tile`
  std::string step_variables;  // statements over `step`
  MatrixEpilogue epilogue;
  // Where some tiles are cut, C conditions of the whole ones and of parts with steps; and the
  // pointer (to value_type) to where a part's sums go, row by row.
  std::string whole, part, part_sums;
};

// Dynamic shared memory that the kernel needs, alignment included.
int64_t matrix_shared_bytes(const MatrixLeaf& leaf);
int64_t matrix_threads(const MatrixLeaf& leaf);
// The largest number of stages that fits into `shared_bytes`.
int64_t matrix_stages(MatrixLeaf leaf, int64_t shared_bytes);

// Wrappers of the instructions, once for each translation unit, after prelude().
std::string matrix_prelude();
std::string matrix_source(const MatrixLeaf& leaf);

}  // namespace tile::cuda
