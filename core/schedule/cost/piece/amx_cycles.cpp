// The cycles of registers that hold matrices: products, loads of operands, and what becomes of the
// sums.
#include "core/schedule/cost/piece/amx_cycles.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/kernel/forms/dot_products.h"
#include "core/schedule/facts/cost_cycles.h"

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
TileCycles AmxCycles::block(int64_t m, int64_t n, double steps) const {
  const TileSizes& t = sizes_;
  DotForm form = *tile_form(s_, f_.piece, f_.contraction, f_.kernel.tensors);
  const AmxTiles& limits = f_.target.tiles;
  auto whole = static_cast<double>(limits.rows * limits.columns() * limits.groups() * t.group);
  double row =
      whole / tiles_per_ns(form, f_.target) / f_.cycle_ns / static_cast<double>(limits.rows);
  std::vector<double> rows = cut(m, t.rows), columns = cut(n, t.columns);
  double all_rows = static_cast<double>(m), tiles = static_cast<double>(columns.size());
  TileCycles c;
  c.steps = steps;
  c.arithmetic = row * all_rows * tiles;
  double loaded = all_rows + tiles * static_cast<double>(t.groups);
  c.loads = loaded * kLoadCycles + kStepCycles;
  c.step = std::max(c.arithmetic, c.loads);
  bool as_they_are =
      f_.kernel.stages.size() == 1 &&
      f_.kernel.tensors[f_.contraction.outputs[0]].type == f_.contraction.accumulator;
  bool blocked = std::any_of(s_.outer.begin(), s_.outer.end(),
                             [&](const Loop& l) { return !f_.is_parallel_dim(l.iterator); });
  c.stores = all_rows * tiles * (as_they_are || blocked ? kRowStoredCycles : kRowFinishedCycles);
  if (blocked) c.finish = all_rows * tiles * kRowResumedCycles + kFarSumsCycles;
  c.start = kTilesStartCycles;
  c.total = steps * c.step + (c.stores + c.finish) + c.start;
  return c;
}

int64_t AmxCycles::block_of(IteratorId iterator) const {
  int64_t block = f_.extent(iterator);
  for (const Loop& l : s_.outer) {
    if (l.iterator == iterator) block = std::min(block, l.step);
  }
  return block;
}

double AmxCycles::total(CostTerm* into) const {
  const TileSizes& t = sizes_;
  double steps = 1, times = 1;  // of a block's reduction, and such blocks
  for (IteratorId u : f_.piece.box.ids()) {
    int64_t extent = f_.extent(u), block = block_of(u);
    if (f_.is_parallel_dim(u)) {
      if (u != t.m && u != t.n) times *= static_cast<double>(extent);
      continue;
    }
    times *= static_cast<double>(ceil_div(extent, block));
    steps *= static_cast<double>(ceil_div(block, u == t.k ? t.terms() : 1));
  }
  double sum = 0;
  int64_t rows = block_of(t.m), columns = block_of(t.n);
  int64_t all_rows = f_.extent(t.m), all_columns = f_.extent(t.n);
  for (auto [m, down] : {std::pair(rows, all_rows / rows), {all_rows % rows, int64_t{1}}}) {
    for (auto [n, along] :
         {std::pair(columns, all_columns / columns), {all_columns % columns, int64_t{1}}}) {
      if (m == 0 || n == 0) continue;
      TileCycles one = block(m, n, steps);
      auto number = static_cast<double>(down * along);
      sum += number * one.total;
      if (into == nullptr) continue;
      bool whole = m == rows && n == columns;
      into->add(tile_term(one, f_.reduces, whole ? "whole blocks" : "remainder blocks",
                          number * times * f_.cycle_ns));
    }
  }
  return sum * times;
}

}  // namespace tile
