// Kernels with row loops: the shared loops once, inside them every stage's own loops in turn, and
// the results that live for a block of rows.
#include <algorithm>
#include <deque>
#include <set>

#include "core/kernel/rows.h"
#include "core/kernel/stream.h"
#include "core/lower/piece/lowering.h"
#include "core/nest/source_lines.h"
#include "core/schedule/cost/piece/piece_model.h"

namespace tile::lowering {

using nest::Block;

namespace {

// Buffers of the results that live for a block of rows.
std::vector<nest::BufferId> make_row_buffers(Frame& frame) {
  RowMap map = row_map(frame.kernel);
  std::vector<nest::BufferId> buffers;
  for (const KernelStage& stage : frame.kernel.stages) {
    if (stage.residence != Residence::row) continue;
    for (TensorId id : stage.contraction.outputs) {
      if (frame.in_row.contains(id)) continue;
      const BoundTensor& t = frame.tensor(id);
      const std::vector<RowId>& rows = map.dimensions.at(id);
      Shape shape = t.shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        shape[d] = rows[d].valid() ? frame.row_blocks[rows[d]] : frame.open.most(t, id, d);
      }
      frame.in_row[id] = rows;
      buffers.push_back(frame.add_buffer("row", t.type, nest::Scope::scratch, shape));
      frame.buffer_of[id] = buffers.back();
    }
  }
  return buffers;
}

// "row0", "row1" … with a letter more where an iterator has that name.
std::vector<std::string> row_names(size_t count, const std::deque<PieceLowering>& stages) {
  std::set<std::string> taken;
  for (const PieceLowering& s : stages) taken.insert(s.names().begin(), s.names().end());
  std::vector<std::string> names;
  for (size_t r = 0; r < count; ++r) {
    std::string name = "row" + std::to_string(r);
    while (!taken.insert(name).second) name += "x";
    names.push_back(std::move(name));
  }
  return names;
}

// The sizes of the blocks that the shared loops visit; empty where a row has no cells.
IdVector<RowId, int64_t> block_sizes(const Frame& frame, const Schedule& schedule) {
  const KernelStage& stage = frame.kernel.stages[0];
  const Piece& piece = stage.contraction.pieces[0];
  IdVector<RowId, IteratorId> rows = shared_iterators(stage);
  IdVector<RowId, int64_t> blocks;
  for (IteratorId u : rows) {
    blocks.push_back(piece.box[u]);
    if (blocks.back() <= 0) return {};
  }
  for (size_t i = 0; i < schedule.shared; ++i) {
    const Loop& l = schedule.stages[0][0].outer[i];
    int64_t& block = blocks[row_of(rows, l.iterator)];
    // An extent that launches give may be more than the box says.
    bool first = frame.open.is_open(piece, l.iterator) && block == piece.box[l.iterator];
    block = first ? l.step : std::min(block, l.step);
  }
  return blocks;
}

Block allocated(const std::vector<nest::BufferId>& buffers) {
  Block out;
  for (nest::BufferId id : buffers) out.push_back({nest::Alloc{id}});
  return out;
}

}  // namespace

nest::Block lower_rows(Frame& frame, const Schedule& schedule) {
  const IdVector<StageId, KernelStage>& stages = frame.kernel.stages;
  IdVector<RowId, IteratorId> rows = shared_iterators(stages[0]);
  frame.row_blocks = block_sizes(frame, schedule);
  if (frame.row_blocks.empty()) return {};
  std::vector<nest::BufferId> buffers = make_row_buffers(frame);
  nest::Block out;
  std::deque<PieceLowering> lowerings;
  double nanoseconds = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].attach.valid()) continue;
    const Contraction& c = stages[s].contraction;
    lowerings.emplace_back(frame, s, 0, schedule.stages[s][0]);
    lowerings.back().prepare(out);
    nanoseconds +=
        piece_nanoseconds(c.pieces[0], c, frame.kernel, schedule.stages[s][0], frame.target);
  }
  buffers.insert(buffers.end(), frame.carried_buffers.begin(), frame.carried_buffers.end());
  bool streams = has_stream(frame.kernel);
  OuterLoopLowering::SharedBody shared;
  if (streams) shared.before = allocated(buffers);
  shared.halves =
      !streams && std::all_of(lowerings.begin(), lowerings.end(), [&](PieceLowering& l) {
        return l.loops().halves_rows(schedule.shared);
      });
  shared.inside = [&](const State& s) {
    nest::Block body = streams ? nest::Block{} : allocated(buffers);
    std::vector<Position> at;
    frame.row_begin.clear();
    for (IteratorId u : rows) {
      at.push_back(s.at[u]);
      frame.row_begin.push_back(tidy(at.back().begin()));
    }
    for (PieceLowering& stage : lowerings) {
      nest::Block own = stage.loops().in_rows(at, schedule.shared);
      nest::give_span(own, stage.parts().context.contraction.span);
      append(body, std::move(own));
    }
    return body;
  };
  PieceLowering first(frame, 0, 0, schedule.stages[0][0]);
  append(out, first.loops().shared_loops(schedule.shared, row_names(rows.size(), lowerings),
                                         nanoseconds, std::move(shared)));
  nest::give_span(out, stages[0].contraction.span);
  return out;
}

}  // namespace tile::lowering
