// The cycles of registers that hold matrices: products, loads of operands, and what becomes of the
// sums.
#include <algorithm>
#include <cmath>

#include "core/kernel/forms/amx_tiles.h"
#include "core/schedule/cost/cost.h"
#include "core/schedule/cost/cost_cycles.h"

namespace tile {
namespace {

// Cycles. [race]: cost_cycles.h, on a server with AMX.
constexpr double kTilesStartCycles = 90;  // [race] waits for the first operands and last products
constexpr double kRowStoredCycles = 1;    // [race] of a register's row that goes to memory
constexpr double kRowFinishedCycles = 5;  // [race] …and is read there, converted and stored
constexpr double kRowResumedCycles = 3;   // [race] …and comes back from the second cache
constexpr double kStepCycles = 6;         // [race] a step's instructions beside its products

// Registers along an iterator in a block of `size` values: of whole size, and what is left.
std::vector<double> cut(int64_t size, int64_t whole) {
  std::vector<double> parts(static_cast<size_t>(size / whole), static_cast<double>(whole));
  if (size % whole != 0) parts.push_back(static_cast<double>(size % whole));
  return parts;
}

}  // namespace

// Cycles of one block of rows and columns with so many steps of the reduction.
PieceModel::TileCycles PieceModel::tiles_block_cycles(const PieceSchedule& s, int64_t m, int64_t n,
                                                      double steps) const {
  TileSizes t = tile_sizes(s, piece_);
  DotForm form = *tile_form(s, piece_, contraction_, kernel_.tensors);
  const AmxTiles& limits = target_.tiles;
  auto whole = static_cast<double>(limits.rows * limits.columns() * limits.groups() * t.group);
  double row = whole / tiles_per_ns(form, target_) / cycle_ns_ / static_cast<double>(limits.rows);
  std::vector<double> rows = cut(m, t.rows), columns = cut(n, t.columns);
  double all_rows = static_cast<double>(m), tiles = static_cast<double>(columns.size());
  TileCycles c;
  c.steps = steps;
  c.arithmetic = row * all_rows * tiles;
  double loaded = all_rows + tiles * static_cast<double>(t.groups);
  c.loads = loaded * kLoadCycles + kStepCycles;
  c.step = std::max(c.arithmetic, c.loads);
  bool as_they_are = kernel_.stages.size() == 1 &&
                     kernel_.tensors[contraction_.outputs[0]].type == contraction_.accumulator;
  bool blocked = std::any_of(s.outer.begin(), s.outer.end(),
                             [&](const Loop& l) { return !piece_.is_parallel(l.iterator); });
  c.stores = all_rows * tiles * (as_they_are || blocked ? kRowStoredCycles : kRowFinishedCycles);
  if (blocked) c.finish = all_rows * tiles * kRowResumedCycles + kFarSumsCycles;
  c.start = kTilesStartCycles;
  c.total = steps * c.step + (c.stores + c.finish) + c.start;
  return c;
}

double PieceModel::tiles_cycles(const PieceSchedule& s, CostTerm* into) const {
  TileSizes t = tile_sizes(s, piece_);
  auto block_of = [&](IteratorId u) {
    int64_t block = piece_.box[u];
    for (const Loop& l : s.outer) {
      if (l.iterator == u) block = std::min(block, l.step);
    }
    return block;
  };
  double steps = 1, times = 1;  // of a block's reduction, and such blocks
  for (IteratorId u : piece_.box.ids()) {
    int64_t extent = piece_.box[u], block = block_of(u);
    if (piece_.is_parallel(u)) {
      if (u != t.m && u != t.n) times *= static_cast<double>(extent);
      continue;
    }
    times *= static_cast<double>(ceil_div(extent, block));
    steps *= static_cast<double>(ceil_div(block, u == t.k ? t.terms() : 1));
  }
  double total = 0;
  int64_t rows = block_of(t.m), columns = block_of(t.n);
  int64_t all_rows = piece_.box[t.m];
  int64_t all_columns = piece_.box[t.n];
  for (auto [m, down] : {std::pair(rows, all_rows / rows), {all_rows % rows, int64_t{1}}}) {
    for (auto [n, along] :
         {std::pair(columns, all_columns / columns), {all_columns % columns, int64_t{1}}}) {
      if (m == 0 || n == 0) continue;
      TileCycles block = tiles_block_cycles(s, m, n, steps);
      auto number = static_cast<double>(down * along);
      total += number * block.total;
      if (into == nullptr) continue;
      bool whole = m == rows && n == columns;
      into->add(tile_term(block, whole ? "whole blocks" : "remainder blocks",
                          number * times * cycle_ns_));
    }
  }
  return total * times;
}

}  // namespace tile
