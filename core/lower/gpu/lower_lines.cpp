// Kernels with row loops on a GPU: a block takes whole rows, one stage after the other. A thread
// holds the same positions of its row in every stage, so that lines stay in its registers; values
// of a row go through shared memory.
#include <deque>

#include "core/lower/gpu/gpu_lowering.h"
#include "core/lower/gpu/line_lowering.h"

namespace tile::lowering {
namespace {

using gpu::LineForm;
using nest::Block;
using nest::LoopKind;

class RowKernelLowering {
 public:
  RowKernelLowering(Frame& frame, const Schedule& schedule)
      : frame_(frame),
        schedule_(schedule),
        g_(*schedule.gpu_lines),
        form_(*gpu::line_form(frame.kernel)) {
    plan_.form = &form_;
    plan_.lanes = g_.lanes;
    plan_.rows = g_.rows;
    plan_.vector = g_.vector;
    plan_.blocks = g_.blocks;
    plan_.block = g_.blocks == 1 ? Expr(0) : Expr::variable("line_part");
    Expr near = g_.vector == 1 ? Expr(0) : Expr::variable("line_near");
    plan_.place = {Expr::variable("line_turn"), near};
    held_ = {ceil_div(form_.count / g_.vector, g_.lanes * g_.blocks), g_.vector};
    Expr thread = Expr::variable("line_thread");
    bool rows_first = form_.rows_are_neighbours;
    if (g_.rows > 1) {
      row_ = rows_first ? floor_mod(thread, Expr(g_.rows)) : floor_div(thread, Expr(g_.lanes));
      lane_ = rows_first ? floor_div(thread, Expr(g_.rows)) : floor_mod(thread, Expr(g_.lanes));
    } else {
      lane_ = thread;
    }
  }

  Block run() {
    pin_tensors();
    Block out;
    make_stages(out);
    nest::For grid = make_loop("line_block", 0, form_.row_count / g_.rows, LoopKind::grid);
    nest::For threads = threads_of_block();
    for (nest::BufferId id : shared_) grid.body.push_back({nest::Alloc{id}});
    if (g_.blocks > 1) {
      nest::For cluster = make_loop("line_part", 0, g_.blocks, LoopKind::thread);
      cluster.blocks = true;
      cluster.body.push_back(statement(std::move(threads)));
      threads = std::move(cluster);
    }
    grid.body.push_back(statement(std::move(threads)));
    out.push_back(statement(std::move(grid)));
    return out;
  }

 private:
  // Where a tensor's element of the current position is from now on.
  void pin(TensorId id, nest::Scope scope, Shape shape, std::vector<Expr> place) {
    nest::BufferId buffer =
        frame_.add_buffer("line", frame_.tensor(id).type, scope, std::move(shape));
    (scope == nest::Scope::shared ? shared_ : registers_).push_back(buffer);
    frame_.pinned[id] = std::move(place);
    frame_.buffer_of[id] = buffer;
  }
  // Shared buffers of a cluster have a dimension for its blocks.
  Shape of_blocks(Shape shape) const {
    if (g_.blocks > 1) shape.insert(shape.begin(), g_.blocks);
    return shape;
  }

  void pin_tensors() {
    std::vector<Expr> cell{row_};
    if (g_.blocks > 1) cell.insert(cell.begin(), plan_.block);
    for (TensorId id : form_.kept) pin(id, nest::Scope::registers, held_, plan_.place);
    for (TensorId id : form_.scalars) pin(id, nest::Scope::shared, of_blocks({g_.rows}), cell);
    // What other threads of the block read goes through its shared memory, not through the
    // argument; of a cluster, whose blocks all have the value, the first stores it.
    for (const LineForm::Stored& s : form_.stored) {
      if (!s.read && g_.blocks == 1) continue;
      frame_.stored_too[s.tensor] = {frame_.buffer_of.at(s.tensor), plan_.block};
      pin(s.tensor, nest::Scope::shared, of_blocks({g_.rows}), cell);
    }
  }

  // The stages with loops of their own, and the shared memory in which each is combined.
  void make_stages(Block& out) {
    const IdVector<StageId, KernelStage>& all = frame_.kernel.stages;
    for (size_t s = 0; s < all.size(); ++s) {
      if (all[s].attach.valid()) continue;
      const Contraction& c = all[s].contraction;
      PieceLowering& piece = pieces_.emplace_back(frame_, s, 0, schedule_.stages[s][0]);
      if (g_.vector > 1) piece.parts().context.tile_shape = {g_.vector};
      piece.prepare(out);
      stages_.emplace_back(piece.parts());
      if (c.pieces[0].parallel_dims == c.pieces[0].box.size()) continue;
      plan_.shared[s] = share("lanes", c, {g_.lanes, g_.rows});
      if (g_.blocks > 1) plan_.totals[s] = share("totals", c, {g_.blocks, g_.rows});
    }
  }
  nest::BufferId share(const char* name, const Contraction& c, Shape shape) {
    shared_.push_back(
        frame_.add_buffer(name, c.accumulator, nest::Scope::shared, of_blocks(std::move(shape))));
    return shared_.back();
  }

  nest::For threads_of_block() {
    nest::For threads = make_loop("line_thread", 0, g_.lanes * g_.rows, LoopKind::thread);
    Expr row = tidy(Expr(g_.rows) * Expr::variable("line_block")) + row_;
    threads.body = bound_to("line_lane", lane_, [&](const Expr& l) {
      return bound_to("line_row", row, [&](const Expr& r) {
        return row_digits(form_.rows.size(), r, std::vector<Expr>(form_.rows.size()), l);
      });
    });
    return threads;
  }

  // Takes the first `left` row iterators' values from `rest`, which is their place in mixed base.
  Block row_digits(size_t left, const Expr& rest, std::vector<Expr> rows, const Expr& lane) {
    if (left == 1) {
      rows[0] = rest;
      return thread(rows, lane);
    }
    std::string name = "line_row" + std::to_string(left);
    return bound_to(name, floor_mod(rest, Expr(form_.rows[left - 1])), [&](const Expr& d) {
      rows[left - 1] = d;
      return bound_to(name + "r", floor_div(rest, Expr(form_.rows[left - 1])),
                      [&](const Expr& q) { return row_digits(left - 1, q, rows, lane); });
    });
  }

  // What one thread does with its rows. Tensors that are read often are in its registers
  // meanwhile.
  Block thread(const std::vector<Expr>& rows, const Expr& lane) {
    Block body;
    std::vector<std::pair<TensorId, nest::BufferId>> arguments;
    for (nest::BufferId id : registers_) body.push_back({nest::Alloc{id}});
    for (const LineForm::Cached& c : form_.cached) {
      arguments.emplace_back(c.tensor, frame_.buffer_of.at(c.tensor));
      nest::BufferId buffer =
          frame_.add_buffer("line", frame_.tensor(c.tensor).type, nest::Scope::registers, held_);
      body.push_back({nest::Alloc{buffer}});
      for (const LineLowering& stage : stages_) {
        if (stage.stage() != c.stage) continue;
        append(body, stage.keep_line(plan_, c.load, buffer, rows, lane));
      }
      frame_.buffer_of[c.tensor] = buffer;
      frame_.pinned[c.tensor] = plan_.place;
    }
    for (LineLowering& stage : stages_) append(body, stage.line_stage(plan_, rows, row_, lane));
    for (auto [tensor, argument] : arguments) {
      frame_.buffer_of[tensor] = argument;
      frame_.pinned.erase(tensor);
    }
    return body;
  }

  Frame& frame_;
  const Schedule& schedule_;
  const GpuLines& g_;
  const LineForm form_;
  LinePlan plan_;
  Shape held_;                                      // of a thread: turns, and neighbours in each
  Expr row_ = 0, lane_;                             // of a block's rows, the thread's, and there
  std::vector<nest::BufferId> shared_, registers_;  // buffers of the launch
  std::deque<PieceLowering> pieces_;                // what the stages are made of
  std::deque<LineLowering> stages_;
};

}  // namespace

nest::Block lower_lines(Frame& frame, const Schedule& schedule) {
  return RowKernelLowering(frame, schedule).run();
}

}  // namespace tile::lowering
