// Carried reductions: one serial loop over the cells of a prefix or suffix reduction.
#include "core/schedule/lowering.h"
#include "core/schedule/scan.h"

namespace tile::lowering {

using nest::Block;

Block PieceLowering::carried_loop(const State& s) {
  ScanForm form = *scan_form(piece_, contraction_);
  State open = s;
  open.guards = Guards::none;  // the loops run over valid points only
  int64_t cells = piece_.box[form.owner], values = piece_.box[form.reduction];
  auto at = [&](const Expr& cell, const Expr& value) {
    State inner = open;
    inner.at[form.owner].levels = {{1, cell}};
    inner.at[form.reduction].levels = {{1, value}};
    return inner;
  };
  auto add = [&](const Expr& value) {
    return tile_loops(0, at(0, value), [&](const State& p) { return accumulate(p); });
  };
  Block out = initialise(open);
  // Values that the first cell has beside its own.
  int64_t begin = form.suffix ? std::max<int64_t>(0, cells + form.offset) : 0;
  int64_t end = form.suffix ? values : std::min(values, -form.offset);
  if (end > begin) {
    std::string name = names_[form.reduction] + "_first";
    nest::For first = make_loop(name, begin, end - begin, nest::LoopKind::serial);
    first.body = add(Expr::variable(name));
    out.push_back(statement(std::move(first)));
  }
  std::string name = names_[form.owner] + "_next";
  Expr step = Expr::variable(name);
  Expr cell = form.suffix ? tidy(Expr(cells - 1) - step) : step;
  Expr value = tidy(form.suffix ? cell + Expr(form.offset) : cell - Expr(form.offset));
  nest::For loop = make_loop(name, 0, cells, nest::LoopKind::serial);
  nest::If there;
  int64_t ends[2] = {form.suffix ? form.offset : -form.offset,
                     (form.suffix ? form.offset : -form.offset) + cells - 1};
  if (ends[0] < 0) there.nonnegative.push_back(value);
  if (ends[1] >= values) there.nonnegative.push_back(tidy(Expr(values - 1) - value));
  there.then = add(value);
  if (there.nonnegative.empty()) {
    loop.body = std::move(there.then);
  } else {
    loop.body.push_back(statement(std::move(there)));
  }
  append(loop.body, tile_loops(0, at(cell, 0), [&](const State& p) { return results(p); }));
  out.push_back(statement(std::move(loop)));
  return out;
}

}  // namespace tile::lowering
