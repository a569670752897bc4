// Kernels with row loops on a GPU: a block takes whole rows, one stage after the other. A thread
// holds the same positions of its row in every stage, so that lines stay in its registers; values
// of a row go through shared memory.
#include <algorithm>

#include "core/kernel/forms/gpu_forms.h"
#include "core/lower/piece/lowering.h"

namespace tile::lowering {

using gpu::LineForm;
using nest::Block;
using nest::LoopKind;

namespace {

Block unrolled(const std::string& name, int64_t extent,
               const std::function<Block(const Expr&)>& f) {
  nest::For loop = make_loop(name, 0, extent, LoopKind::unrolled);
  loop.body = f(Expr::variable(name));
  if (loop.body.empty()) return {};
  return {statement(std::move(loop))};
}

}  // namespace

// A thread's positions of the stage's line, with the rows already known.
Block PieceLowering::line_positions(const LinePlan& plan, const State& rows, const Expr& lane,
                                    const std::function<Block(const State&)>& body) const {
  const gpu::FlatIndex& line = plan.form->lines[stage_];
  int64_t groups = plan.form->count / plan.vector, all = plan.lanes * plan.blocks;
  return unrolled("line_turn", ceil_div(groups, all), [&](const Expr& turn) {
    Expr group = tidy(Expr(all) * turn + Expr(plan.lanes) * plan.block + lane);
    std::vector<Expr> inside;
    if (groups % all != 0) inside.push_back(tidy(Expr(groups - 1) - group));
    Expr near = plan.vector == 1 ? Expr(0) : Expr::variable("line_near");
    return only_if(inside, decoded(line, rows, group, plan.vector, near, "p", [&](const State& s) {
                     return vector_lanes("line_near", plan.vector, [&](const Expr& v) {
                       State at = s;
                       at.tile_index = {v};
                       return body(at);
                     });
                   }));
  });
}

State PieceLowering::line_rows(const std::vector<Expr>& rows) const {
  State s = whole_box();
  const KernelStage& stage = frame_.kernel.stages[stage_];
  for (size_t u = 0; u < piece_.box.size(); ++u) {
    if (piece_.box[u] == 1) s.at[u] = {{{1, Expr(0)}}, 1, 1};
  }
  for (size_t r = 0; r < stage.rows.size(); ++r) {
    s.at[static_cast<size_t>(stage.rows[r])] = {{{1, rows[r]}}, 1, 1};
  }
  return s;
}

void PieceLowering::prepare_line(int64_t vector, Block& out) {
  if (vector > 1) tile_shape_ = {vector};
  prepare(out);
}

// Copies a tensor's line into the registers that stand for it from then on.
Block PieceLowering::keep_line(const LinePlan& plan, size_t load, int buffer,
                               const std::vector<Expr>& rows, const Expr& lane) const {
  return line_positions(plan, line_rows(rows), lane, [&](const State& s) {
    Value value;
    value.body.results = {element(value, load, s)};
    nest::Store store;
    store.target = {buffer, plan.place, {}};
    settle(store, std::move(value));
    return Block{statement(std::move(store))};
  });
}

Block PieceLowering::line_stage(const LinePlan& plan, const std::vector<Expr>& rows,
                                const Expr& parallel_dim, const Expr& lane) {
  State at = line_rows(rows);
  Block out = allocations();
  if (!reduces_) {
    append(out, line_positions(plan, at, lane, [&](const State& s) { return owned_results(s); }));
    return out;
  }
  append(out, vector_lanes("first", plan.vector, [&](const Expr& v) {
           State s;
           s.tile_index = {v};
           return Block{statement(neutral_store(accumulator(0, s)))};
         }));
  append(out, line_positions(plan, at, lane, [&](const State& s) {
           State point = s;
           point.guards = Guards::points;
           return accumulate_everywhere(point);
         }));
  State first;
  first.tile_index = {Expr(0)};
  if (plan.vector > 1) {
    append(out, unrolled("other", plan.vector - 1, [&](const Expr& v) {
             State other;
             other.tile_index = {tidy(v + 1)};
             return Block{combined(accumulator(0, first), accumulator(0, other))};
           }));
  }
  Spread p;
  p.parallel_dims = plan.rows;
  p.lanes = plan.lanes;
  p.shared = {plan.shared.at(stage_)};
  if (plan.blocks > 1) p.block = plan.block;
  append(out, combine_lanes(p, parallel_dim, lane));
  if (plan.blocks > 1) append(out, combine_blocks(plan, lane));
  State cell = at;
  cell.tile_index = {Expr(0)};
  append(out, only_if({-lane}, owned_results(cell)));
  out.push_back({nest::Sync{}});
  return out;
}

// Each block gives its sum to all blocks of the cluster, which then add them in the same order.
Block PieceLowering::combine_blocks(const LinePlan& plan, const Expr& lane) {
  State first;
  first.tile_index = {Expr(0)};
  auto total = [&](const Expr& in, const Expr& of) {
    return nest::Access{plan.totals.at(stage_), {in, of}, {}};
  };
  Block out = only_if({-lane}, unrolled("to", plan.blocks, [&](const Expr& to) {
                        return Block{copied(total(to, plan.block), accumulator(0, first))};
                      }));
  out.push_back({nest::Sync{}});
  Block sum{copied(accumulator(0, first), total(plan.block, Expr(0)))};
  append(sum, unrolled("from", plan.blocks - 1, [&](const Expr& from) {
           return Block{combined(accumulator(0, first), total(plan.block, tidy(from + 1)))};
         }));
  append(out, only_if({-lane}, std::move(sum)));
  return out;
}

Block lower_lines(Frame& frame, const Schedule& schedule) {
  const GpuLines& g = *schedule.gpu_lines;
  LineForm form = *gpu::line_form(frame.kernel);
  PieceLowering::LinePlan plan;
  plan.form = &form;
  plan.lanes = g.lanes;
  plan.rows = g.rows;
  plan.vector = g.vector;
  plan.blocks = g.blocks;
  plan.block = g.blocks == 1 ? Expr(0) : Expr::variable("line_part");
  int64_t turns = ceil_div(form.count / g.vector, g.lanes * g.blocks);
  Expr near = g.vector == 1 ? Expr(0) : Expr::variable("line_near");
  plan.place = {Expr::variable("line_turn"), near};
  Expr parallel_dim =
      g.rows == 1 ? Expr(0) : floor_div(Expr::variable("line_thread"), Expr(g.lanes));
  std::vector<int> shared, registers;
  auto pin = [&](TensorId id, nest::Scope scope, Shape shape, std::vector<Expr> place) {
    int buffer = frame.add_buffer("line", frame.tensor(id).type, scope, std::move(shape));
    (scope == nest::Scope::shared ? shared : registers).push_back(buffer);
    frame.pinned[id] = std::move(place);
    frame.buffer_of[id] = buffer;
    return buffer;
  };
  // Shared buffers of a cluster have a dimension for its blocks.
  auto of_blocks = [&](Shape shape) {
    if (g.blocks > 1) shape.insert(shape.begin(), g.blocks);
    return shape;
  };
  std::vector<Expr> cell{parallel_dim};
  if (g.blocks > 1) cell.insert(cell.begin(), plan.block);
  Shape held{turns, g.vector};
  for (TensorId id : form.kept) pin(id, nest::Scope::registers, held, plan.place);
  for (TensorId id : form.scalars) pin(id, nest::Scope::shared, of_blocks({g.rows}), cell);
  // What other threads of the block read goes through its shared memory, not through the argument;
  // of a cluster, whose blocks all have the value, the first stores it.
  for (const LineForm::Stored& s : form.stored) {
    if (!s.read && g.blocks == 1) continue;
    frame.stored_too[s.tensor] = {frame.buffer_of.at(s.tensor), plan.block};
    pin(s.tensor, nest::Scope::shared, of_blocks({g.rows}), cell);
  }
  Block out;
  std::vector<PieceLowering> stages;
  const std::vector<KernelStage>& all = frame.kernel.stages;
  for (size_t s = 0; s < all.size(); ++s) {
    if (all[s].attach >= 0) continue;
    const Contraction& c = all[s].contraction;
    stages.emplace_back(frame, s, 0, schedule.stages[s][0]);
    stages.back().prepare_line(g.vector, out);
    if (c.pieces[0].parallel_dims == c.pieces[0].box.size()) continue;
    auto share = [&](const std::string& name, Shape shape) {
      shared.push_back(
          frame.add_buffer(name, c.accumulator, nest::Scope::shared, of_blocks(std::move(shape))));
      return shared.back();
    };
    plan.shared[s] = share("lanes", {g.lanes, g.rows});
    if (g.blocks > 1) plan.totals[s] = share("totals", {g.blocks});
  }
  std::function<Block(const std::vector<Expr>&, const Expr&)> thread =
      [&](const std::vector<Expr>& rows, const Expr& lane) {
        Block body;
        std::vector<std::pair<TensorId, int>> arguments;
        for (int id : registers) body.push_back({nest::Alloc{id}});
        for (const LineForm::Cached& c : form.cached) {
          int argument = frame.buffer_of.at(c.tensor);
          arguments.emplace_back(c.tensor, argument);
          int buffer =
              frame.add_buffer("line", frame.tensor(c.tensor).type, nest::Scope::registers, held);
          body.push_back({nest::Alloc{buffer}});
          for (const PieceLowering& stage : stages) {
            if (stage.number() != c.stage) continue;
            append(body, stage.keep_line(plan, c.load, buffer, rows, lane));
          }
          frame.buffer_of[c.tensor] = buffer;
          frame.pinned[c.tensor] = plan.place;
        }
        for (PieceLowering& stage : stages) {
          append(body, stage.line_stage(plan, rows, parallel_dim, lane));
        }
        for (auto [tensor, argument] : arguments) {
          frame.buffer_of[tensor] = argument;
          frame.pinned.erase(tensor);
        }
        return body;
      };
  nest::For threads = make_loop("line_thread", 0, g.lanes * g.rows, LoopKind::thread);
  Expr t = Expr::variable("line_thread");
  Expr lane = g.rows == 1 ? t : floor_mod(t, Expr(g.lanes));
  Expr row = tidy(Expr(g.rows) * Expr::variable("line_block")) + parallel_dim;
  threads.body = bound_to("line_lane", lane, [&](const Expr& l) {
    return bound_to("line_row", row, [&](const Expr& r) {
      std::vector<Expr> rows(form.rows.size());
      std::function<Block(size_t, const Expr&)> digit = [&](size_t left,
                                                            const Expr& rest) -> Block {
        if (left == 1) {
          rows[0] = rest;
          return thread(rows, l);
        }
        std::string name = "line_row" + std::to_string(left);
        return bound_to(name, floor_mod(rest, Expr(form.rows[left - 1])), [&](const Expr& d) {
          rows[left - 1] = d;
          return bound_to(name + "r", floor_div(rest, Expr(form.rows[left - 1])),
                          [&](const Expr& q) { return digit(left - 1, q); });
        });
      };
      return digit(form.rows.size(), r);
    });
  });
  nest::For grid = make_loop("line_block", 0, form.row_count / g.rows, LoopKind::grid);
  for (int id : shared) grid.body.push_back({nest::Alloc{id}});
  if (g.blocks > 1) {
    nest::For cluster = make_loop("line_part", 0, g.blocks, LoopKind::thread);
    cluster.blocks = true;
    cluster.body.push_back(statement(std::move(threads)));
    threads = std::move(cluster);
  }
  grid.body.push_back(statement(std::move(threads)));
  out.push_back(statement(std::move(grid)));
  return out;
}

}  // namespace tile::lowering
