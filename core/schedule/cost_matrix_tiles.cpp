// The cycles of registers that hold matrices: products, loads of operands, and what becomes of the
// sums.
#include <algorithm>
#include <cmath>

#include "core/schedule/cost.h"
#include "core/schedule/cost_cycles.h"
#include "core/schedule/matrix_tiles.h"

namespace tile {
namespace {

constexpr double kTilesStart = 90;  // of waiting for the first operands and the last products
constexpr double kRowStored = 1;    // of a register's row that goes to memory
constexpr double kRowFinished = 3;  // …and is read there again, converted and stored
constexpr double kOthers = 6;       // of a step's other instructions, beside the products

// Registers along an unknown in a block of `size` values: of whole size, and what is left.
std::vector<double> cut(int64_t size, int64_t whole) {
  std::vector<double> parts(static_cast<size_t>(size / whole), static_cast<double>(whole));
  if (size % whole != 0) parts.push_back(static_cast<double>(size % whole));
  return parts;
}

}  // namespace

// Cycles of one block of rows and columns with so many steps of the reduction.
double PieceModel::tiles_block_cycles(const PieceSchedule& s, int64_t m, int64_t n,
                                      double steps) const {
  TileSizes t = tile_sizes(s, piece_);
  DotForm form = *tile_form(s, piece_, contraction_, kernel_.tensors);
  const MatrixTiles& limits = target_.tiles;
  auto whole = static_cast<double>(limits.rows * limits.columns() * limits.groups() * t.group);
  double row = whole / tiles_per_ns(form, target_) / cycle_ns_ / static_cast<double>(limits.rows);
  std::vector<double> rows = cut(m, t.rows), columns = cut(n, t.columns);
  double all_rows = static_cast<double>(m), tiles = static_cast<double>(columns.size());
  double products = row * all_rows * tiles;
  double loaded = all_rows + tiles * static_cast<double>(t.groups);
  double step = std::max(products, loaded * kLoad + kOthers);
  bool as_they_are = kernel_.stages.size() == 1 &&
                     kernel_.tensors[static_cast<size_t>(contraction_.outputs[0])].type ==
                         contraction_.accumulator;
  bool blocked = std::any_of(s.outer.begin(), s.outer.end(), [&](const Loop& l) {
    return l.unknown >= static_cast<int>(piece_.owners);
  });
  double ends = all_rows * tiles * (as_they_are || blocked ? kRowStored : kRowFinished);
  if (blocked) ends += all_rows * tiles * kLoad;
  return steps * step + ends + kTilesStart;
}

double PieceModel::tiles_cycles(const PieceSchedule& s) const {
  TileSizes t = tile_sizes(s, piece_);
  double steps = 1, blocks = 1, others = 1;
  for (size_t u = piece_.owners; u < piece_.box.size(); ++u) {
    int64_t cut_at = piece_.box[u];
    for (const Loop& l : s.outer) {
      if (l.unknown == static_cast<int>(u)) cut_at = std::min(cut_at, l.step);
    }
    blocks *= static_cast<double>(ceil_div(piece_.box[u], cut_at));
    int64_t together = static_cast<int>(u) == t.k ? t.terms() : 1;
    steps *= static_cast<double>(ceil_div(cut_at, together));
  }
  auto block_of = [&](int u) {
    int64_t block = piece_.box[static_cast<size_t>(u)];
    for (const Loop& l : s.outer) {
      if (l.unknown == u) block = std::min(block, l.step);
    }
    return block;
  };
  for (size_t u = 0; u < piece_.owners; ++u) {
    bool tiled = static_cast<int>(u) == t.m || static_cast<int>(u) == t.n;
    if (!tiled) others *= static_cast<double>(piece_.box[u]);
  }
  double total = 0;
  int64_t rows = block_of(t.m), columns = block_of(t.n);
  for (int64_t m : {rows, piece_.box[static_cast<size_t>(t.m)] % rows}) {
    for (int64_t n : {columns, piece_.box[static_cast<size_t>(t.n)] % columns}) {
      if (m == 0 || n == 0) continue;
      double times =
          m == rows ? static_cast<double>(piece_.box[static_cast<size_t>(t.m)] / rows) : 1;
      times *=
          n == columns ? static_cast<double>(piece_.box[static_cast<size_t>(t.n)] / columns) : 1;
      total += times * tiles_block_cycles(s, m, n, steps);
    }
  }
  return total * blocks * others;
}

}  // namespace tile
