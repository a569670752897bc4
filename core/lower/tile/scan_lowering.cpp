// Carried reductions: one serial loop over the cells of a prefix or suffix reduction, one by one or
// in vectors.
#include "core/lower/tile/scan_lowering.h"

namespace tile::lowering {

using nest::Block;

// Values that the first cell has beside its own.
Block ScanLowering::first_values(const ScanForm& form, const State& s) const {
  int64_t cells = c_.piece.box[form.parallel_dim], values = c_.piece.box[form.reduction];
  int64_t begin = form.suffix ? std::max<int64_t>(0, cells + form.offset) : 0;
  int64_t end = form.suffix ? values : std::min(values, -form.offset);
  if (end <= begin) return {};
  std::string name = c_.names[form.reduction] + "_first";
  State inner = s;
  inner.at[form.parallel_dim].levels = {{1, 0}};
  inner.at[form.reduction].levels = {{1, Expr::variable(name)}};
  nest::For first = make_loop(name, begin, end - begin, nest::LoopKind::serial);
  first.body = tile_loops(c_, inner, [&](const State& p) { return terms_.accumulate(p); });
  return {statement(std::move(first))};
}

// What `add` makes of the value that the cell `step` of the way has beside those of the cell
// before, where there is one.
Block ScanLowering::next_value(const ScanForm& form, const Expr& step, State s,
                               const Leaf& add) const {
  int64_t cells = c_.piece.box[form.parallel_dim], values = c_.piece.box[form.reduction];
  Expr cell = form.suffix ? tidy(Expr(cells - 1) - step) : step;
  Expr value = tidy(form.suffix ? cell + Expr(form.offset) : cell - Expr(form.offset));
  s.at[form.parallel_dim].levels = {{1, cell}};
  s.at[form.reduction].levels = {{1, value}};
  nest::If there;
  int64_t first = form.suffix ? form.offset : -form.offset;
  if (first < 0) there.nonnegative.push_back(value);
  if (first + cells - 1 >= values) there.nonnegative.push_back(tidy(Expr(values - 1) - value));
  there.then = add(s);
  if (there.nonnegative.empty()) return std::move(there.then);
  return {statement(std::move(there))};
}

Block ScanLowering::carried_loop(const State& s) {
  ScanForm form = *scan_form(c_.piece, c_.contraction);
  State open = s;
  open.guards = Guards::none;  // the loops run over valid points only
  Block out = partials_.initialise(open);
  append(out, first_values(form, open));
  std::string name = c_.names[form.parallel_dim] + "_next";
  Expr step = Expr::variable(name);
  nest::For loop = make_loop(name, 0, c_.piece.box[form.parallel_dim], nest::LoopKind::serial);
  // What a vector of cells makes is stored before the next one is read: reads and writes in turns,
  // as a copy has them, keep more of both under way than all of one and then all of the other.
  loop.body = tile_loops(c_, open, [&](const State& tile) { return next_cell(form, step, tile); });
  out.push_back(statement(std::move(loop)));
  return out;
}

// Vectors of neighbouring cells, which take their running values together.
Block ScanLowering::carried_lanes(const State& s) {
  ScanForm form = *scan_form(c_.piece, c_.contraction);
  State open = s;
  open.guards = Guards::none;
  open.one_cell = true;
  Block out = partials_.initialise(open);
  append(out, first_values(form, open));
  open.one_cell = false;
  append(out, in_vectors(c_, c_.names[form.parallel_dim] + "_next", c_.piece.box[form.parallel_dim],
                         open, next_cells(form)));
  return out;
}

// The cells of a vector, whose position is the step.
Leaf ScanLowering::next_cells(const ScanForm& form) {
  return [this, form](const State& at) {
    return next_cell(form, tidy(at.at[form.parallel_dim].begin()), at);
  };
}

// Adds the value of the step, and stores the cell that it completes.
Block ScanLowering::next_cell(const ScanForm& form, const Expr& step, State s) {
  Block body = next_value(form, step, s, [&](const State& p) { return terms_.accumulate(p); });
  Expr last(c_.piece.box[form.parallel_dim] - 1);
  s.at[form.parallel_dim].levels = {{1, form.suffix ? tidy(last - step) : step}};
  s.at[form.reduction].levels = {{1, 0}};
  append(body, results_.results(s));
  return body;
}

}  // namespace tile::lowering
