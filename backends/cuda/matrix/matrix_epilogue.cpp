// The end of a tile on Hopper's tensor cores: cells are stored one by one or staged as panels,
// parts of cut tiles are kept, and the blocks of a cluster add up their sums.
#include "backends/cuda/matrix/matrix_layout.h"

namespace tile::cuda {
namespace {

// Two bytes a cell, by stmatrix: lane l gives the address of row l % 16, of the left or right 8
// columns.
constexpr const char* kNarrowPanel =
    R"(for (int j = 0; j < $groups; j += 2) {
const int at = p * $groups + j;
const int row = first_row + lane / 4, pair = (${first_column}at * 8) / 2 + lane % 4;
const unsigned in_panel = warp * 16 + lane % 16;
const unsigned to = panel + in_panel * 128 + (((j + lane / 16) ^ (in_panel & 7)) << 4);
unsigned r[4];
#pragma unroll
for (int q = 0; q < 4; ++q) {
const auto made = finish(row + q % 2 * 8, pair + q / 2 * 4, done[m][at * 4 + q * 2], done[m][at * 4 + q * 2 + 1]);
r[q] = pair_bits(made.e[0], made.e[1]);
}
store_matrices(to, r[0], r[1], r[2], r[3]);
}
)";

// Four bytes a cell.
constexpr const char* kWidePanel =
    R"(for (int j = 0; j < $groups; j += 1) {
const int at = p * $groups + j;
const int row = first_row + lane / 4, pair = (${first_column}at * 8) / 2 + lane % 4;
#pragma unroll
for (int q = 0; q < 2; ++q) {
const unsigned in_panel = warp * 16 + lane / 4 + q * 8;
const unsigned chunk = j * 2 + lane % 4 / 2;
const unsigned to = panel + in_panel * 128 + ((chunk ^ (in_panel & 7)) << 4) + lane % 2 * 8;
const auto made = finish(row + q * 8, pair, done[m][at * 4 + q * 2], done[m][at * 4 + q * 2 + 1]);
store_pair(to, word_bits(made.e[0]), word_bits(made.e[1]));
}
}
)";

// One byte a cell.
constexpr const char* kBytePanel =
    R"(for (int j = 0; j < $groups; j += 1) {
const int at = p * $groups + j;
const int row = first_row + lane / 4, pair = (${first_column}at * 8) / 2 + lane % 4;
#pragma unroll
for (int q = 0; q < 2; ++q) {
const unsigned in_panel = warp * 16 + lane / 4 + q * 8;
const unsigned to = panel + in_panel * 128 + ((j / 2 ^ (in_panel & 7)) << 4) + j % 2 * 8 + lane % 4 * 2;
const auto made = finish(row + q * 8, pair, done[m][at * 4 + q * 2], done[m][at * 4 + q * 2 + 1]);
store_bytes(to, made.e[0], made.e[1]);
}
}
)";

// Panels that may still be on their way when the next is written: the ring starts anew with each
// tile, so that it must come out even.
int64_t pending_panels(const MatrixLeaf& l) {
  int64_t panels = row_blocks(l) * own_columns(l) * l.epilogue.result_bytes / 128;
  return panels % l.epilogue.buffers == 0 ? l.epilogue.buffers - 1 : 0;
}

// Panels of 64 rows and 128 bytes go through shared memory and leave the block as boxes.
std::string staged_epilogue(const MatrixLeaf& l) {
  const MatrixEpilogue& e = l.epilogue;
  int64_t columns = 128 / e.result_bytes;
  TextPieces pieces = common_pieces(l);
  pieces.set("groups", columns / 8);
  pieces.set("panel_columns", columns);
  pieces.set("panels", own_columns(l) / columns);
  pieces.set("pending", pending_panels(l));
  pieces.set("buffers", e.buffers);
  pieces.set("panel_bytes", kPanelBytes);
  pieces.set("map", e.map);
  const char* panel = e.result_bytes == 1   ? kBytePanel
                      : e.result_bytes == 2 ? kNarrowPanel
                                            : kWidePanel;
  pieces.set("panel", pieces.fill(panel));
  std::string coordinates;
  for (const std::string& c : e.coordinates) coordinates += ", " + c;
  pieces.set("coordinates", coordinates);
  return pieces.fill(R"(#pragma unroll
for (int p = 0; p < $panels; ++p) {
if (thread == 0) store_wait<$pending>();
group_sync(1 + consumer);
const unsigned panel = panels + (m * $panels + p) % $buffers * $panel_bytes;
#pragma unroll
${panel}copies_fence();
group_sync(1 + consumer);
if (thread == 0) {
const int row = block_row, column = ${first_column}p * $panel_columns;
box_store(&$map, panel$coordinates);
store_commit();
}
}
)");
}

// The statements of cells store them.
std::string direct_epilogue(const MatrixLeaf& l) {
  TextPieces pieces = common_pieces(l);
  pieces.set("pairs", own_columns(l) / 4);
  return pieces.fill(R"(#pragma unroll
for (int i = 0; i < $pairs; ++i) {
const int row = first_row + lane / 4 + i % 2 * 8;
finish(row, (${first_column}i / 2 * 8) / 2 + lane % 4, done[m][i * 2], done[m][i * 2 + 1]);
}
)");
}

std::string epilogue(const MatrixLeaf& l) {
  const MatrixEpilogue& e = l.epilogue;
  bool staged = !e.map.empty();
  TextPieces pieces = common_pieces(l);
  pieces.set("sums", l.cluster > 1 ? "total" : "sum");
  pieces.set("result_type", e.result_type);
  pieces.set("result", staged ? pieces.fill("$result_type result[2] = {};\n") : "");
  pieces.set("cells", e.cells);
  pieces.set("return_result",
             staged ? pieces.fill("return Pack<$result_type, 2>{{result[0], result[1]}};\n") : "");
  pieces.set("stores", staged ? staged_epilogue(l) : direct_epilogue(l));
  return pieces.fill(R"(auto& done = $sums;
auto finish = [&](int row, int pair, $value_type first, $value_type second) {
const $value_type value[2] = {first, second};
$result$cells
$return_result};
#pragma unroll
for (int m = 0; m < $blocks; ++m) {
const int block_row = ($first_block + m) * 64;
const int first_row = block_row + warp * 16;
$stores}
)");
}

// The sums of a part of a tile, pairs of neighbours at once.
std::string keep_part(const MatrixLeaf& l) {
  TextPieces pieces = common_pieces(l);
  pieces.set("part_sums", l.part_sums);
  pieces.set("pairs", l.tile_n / 4);
  return pieces.fill(
      R"($value_type* const part_sums = $part_sums + ($first_block * 64 + warp * 16 + lane / 4) * $columns + lane % 4 * 2;
#pragma unroll
for (int m = 0; m < $blocks; ++m) {
#pragma unroll
for (int i = 0; i < $pairs; ++i) {
*(Pack<$value_type, 2>*)(part_sums + (m * 64 + i % 2 * 8) * $columns + i / 2 * 8) = {{($value_type)sum[m][i * 2], ($value_type)sum[m][i * 2 + 1]}};
}
}
)");
}

// The blocks of a cluster leave their sums where their stages were; each adds up all of them for
// its part of the columns, always in the same order.
std::string gather_sums(const MatrixLeaf& l) {
  int64_t all = l.tile_n / 8, own = own_columns(l) / 8;
  TextPieces pieces = common_pieces(l);
  pieces.set("all", all);
  pieces.set("own", own);
  pieces.set("own_registers", own * 4);
  pieces.set("warpgroup_bytes", row_blocks(l) * all * 2048);
  pieces.set("part_bytes", own * 2048);
  pieces.set("threads", 128 * l.consumers);
  std::string share, add;
  for (int q = 0; q < 4; ++q) {
    std::string at = "[m][i * 4 + " + std::to_string(q) + "]";
    share += ", word_bits(sum" + at + ")";
    add += "add_word(total" + at + ", more." + "xyzw"[q] + ");\n";
  }
  pieces.set("shared_sums", share);
  pieces.set("add", add);
  return pieces.fill(R"(const unsigned mine = base + thread * 16 + consumer * $warpgroup_bytes;
asm volatile("bar.sync 3, $threads;" ::: "memory");
#pragma unroll
for (int m = 0; m < $blocks; ++m) {
#pragma unroll
for (int i = 0; i < $all; ++i) {
share_words(mine + (m * $all + i) * 2048$shared_sums);
}
}
cluster_sync();
$sum_type total[$blocks][$own_registers] = {};
#pragma unroll
for (int block = 0; block < $cluster; ++block) {
const unsigned from = cluster_address(mine + part * $part_bytes, block);
#pragma unroll
for (int m = 0; m < $blocks; ++m) {
#pragma unroll
for (int i = 0; i < $own; ++i) {
const uint4 more = cluster_words(from + (m * $all + i) * 2048);
$add}
}
}
)");
}

}  // namespace

std::string finish_tile(const MatrixLeaf& l) {
  if (l.cluster > 1) return gather_sums(l) + epilogue(l) + "cluster_sync();\n";
  if (l.part.empty()) return epilogue(l);
  TextPieces pieces;
  pieces.set("whole", l.whole);
  pieces.set("part", l.part);
  pieces.set("finish", epilogue(l));
  pieces.set("keep", keep_part(l));
  return pieces.fill(R"(if ($whole) {
$finish}
if ($part) {
$keep}
)");
}

}  // namespace tile::cuda
