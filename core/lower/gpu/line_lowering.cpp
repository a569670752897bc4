// One stage of a row kernel on a GPU.
#include "core/lower/gpu/line_lowering.h"

#include <algorithm>
#include <deque>

#include "core/lower/gpu/gpu_lowering.h"

namespace tile::lowering {

using gpu::LineForm;
using nest::Block;
using nest::LoopKind;

namespace {

Block unrolled(const std::string& name, int64_t extent, const std::function<Block(const Expr&)>& f,
               int64_t begin = 0) {
  if (extent == 0) return {};
  nest::For loop = make_loop(name, begin, extent, LoopKind::unrolled);
  loop.body = f(Expr::variable(name));
  if (loop.body.empty()) return {};
  return {statement(std::move(loop))};
}

}  // namespace

// A thread's positions of the stage's line, with the rows already known. Only the last turn may lie
// behind the line's end: without a test in the others their loads are issued together. Not so where
// a thread holds many positions: its compiler would also keep what two stages compute of each (an
// exponential), which then has no registers.
Block LineLowering::line_positions(const LinePlan& plan, const State& rows, const Expr& lane,
                                   const std::function<Block(const State&)>& body) const {
  const gpu::FlatIndex& line = plan.form->lines[c_.stage];
  int64_t groups = plan.form->count / plan.vector, all = plan.lanes * plan.blocks;
  auto of_turn = [&](const Expr& turn, bool tested) {
    Expr group = tidy(Expr(all) * turn + Expr(plan.lanes) * plan.block + lane);
    std::vector<Expr> inside;
    if (tested) inside.push_back(tidy(Expr(groups - 1) - group));
    Expr near = plan.vector == 1 ? Expr(0) : Expr::variable("line_near");
    return only_if(inside,
                   decoded(c_, line, rows, group, plan.vector, near, "p", [&](const State& s) {
                     return vector_lanes("line_near", plan.vector, [&](const Expr& v) {
                       State at = s;
                       at.tile_index = {v};
                       return body(at);
                     });
                   }));
  };
  int64_t whole = groups / all, rest = groups % all == 0 ? 0 : 1;
  int64_t positions = ceil_div(groups, all) * plan.vector;
  bool many = 2 * positions + gpu::kOtherLineRegisters > c_.frame.target.gpu.registers_per_thread;
  if (rest > 0 && many) {
    return unrolled("line_turn", whole + 1, [&](const Expr& turn) { return of_turn(turn, true); });
  }
  Block out = unrolled("line_turn", whole, [&](const Expr& turn) { return of_turn(turn, false); });
  append(out,
         unrolled("line_turn", rest, [&](const Expr& turn) { return of_turn(turn, true); }, whole));
  return out;
}

State LineLowering::line_rows(const std::vector<Expr>& rows) const {
  State s = c_.whole_box();
  const KernelStage& stage = c_.frame.kernel.stages[c_.stage];
  for (size_t u = 0; u < c_.piece.box.size(); ++u) {
    if (c_.piece.box[u] == 1) s.at[u] = {{{1, Expr(0)}}, 1, 1};
  }
  for (size_t r = 0; r < stage.rows.size(); ++r) {
    s.at[stage.rows[r]] = {{{1, rows[r]}}, 1, 1};
  }
  return s;
}

// Copies a tensor's line into the registers that stand for it from then on.
Block LineLowering::keep_line(const LinePlan& plan, size_t load, nest::BufferId buffer,
                              const std::vector<Expr>& rows, const Expr& lane) const {
  return line_positions(plan, line_rows(rows), lane, [&](const State& s) {
    Value value;
    value.body.results = {values_.element(value, load, s)};
    nest::Store store;
    store.target = {buffer, plan.place, {}};
    settle(store, std::move(value));
    return Block{statement(std::move(store))};
  });
}

Block LineLowering::line_stage(const LinePlan& plan, const std::vector<Expr>& rows,
                               const Expr& parallel_dim, const Expr& lane) {
  State at = line_rows(rows);
  Block out = results_.allocations();
  if (!c_.reduces) {
    append(out, line_positions(plan, at, lane,
                               [&](const State& s) { return results_.owned_results(s); }));
    return out;
  }
  append(out, reduced_line(plan, at, parallel_dim, lane));
  State cell = at;
  cell.tile_index = {Expr(0)};
  append(out, only_if({-lane}, results_.owned_results(cell)));
  out.push_back({nest::Sync{}});
  return out;
}

// Leaves the reduction of the whole line in the first accumulator.
Block LineLowering::reduced_line(const LinePlan& plan, const State& at, const Expr& parallel_dim,
                                 const Expr& lane) const {
  Block out = vector_lanes("first", plan.vector, [&](const Expr& v) {
    State s;
    s.tile_index = {v};
    return Block{statement(accumulators_.neutral_store(accumulators_.accumulator(0, s)))};
  });
  append(out, line_positions(plan, at, lane, [&](const State& s) {
           State point = s;
           point.guards = Guards::points;
           return terms_.accumulate_everywhere(point);
         }));
  if (plan.vector > 1) {
    State first;
    first.tile_index = {Expr(0)};
    append(out, unrolled("other", plan.vector - 1, [&](const Expr& v) {
             State other;
             other.tile_index = {tidy(v + 1)};
             return Block{terms_.combined(accumulators_.accumulator(0, first),
                                          accumulators_.accumulator(0, other))};
           }));
  }
  Spread p;
  p.parallel_dims = plan.rows;
  p.lanes = plan.lanes;
  p.shared = {plan.shared.at(c_.stage)};
  if (plan.blocks > 1) p.block = plan.block;
  append(out, spread_.combine_lanes(p, parallel_dim, lane));
  if (plan.blocks > 1) append(out, combine_blocks(plan, parallel_dim, lane));
  return out;
}

// Each block gives its sum to all blocks of the cluster, which then add them in the same order.
Block LineLowering::combine_blocks(const LinePlan& plan, const Expr& row, const Expr& lane) const {
  State first;
  first.tile_index = {Expr(0)};
  auto total = [&](const Expr& in, const Expr& of) {
    return nest::Access{plan.totals.at(c_.stage), {in, of, row}, {}};
  };
  Block out = only_if(
      {-lane}, unrolled("to", plan.blocks, [&](const Expr& to) {
        return Block{terms_.copied(total(to, plan.block), accumulators_.accumulator(0, first))};
      }));
  out.push_back({nest::Sync{}});
  Block sum{terms_.copied(accumulators_.accumulator(0, first), total(plan.block, Expr(0)))};
  append(sum, unrolled("from", plan.blocks - 1, [&](const Expr& from) {
           return Block{terms_.combined(accumulators_.accumulator(0, first),
                                        total(plan.block, tidy(from + 1)))};
         }));
  append(out, only_if({-lane}, std::move(sum)));
  return out;
}

}  // namespace tile::lowering
