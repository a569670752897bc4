// Kernels with row loops: the shared loops once, inside them every stage's own loops in turn, and
// the results that live for a block of rows.
#include <algorithm>

#include "core/schedule/cost.h"
#include "core/schedule/lowering.h"

namespace tile::lowering {

using nest::Block;

nest::Block PieceLowering::shared_loops(size_t shared, const std::vector<std::string>& names,
                                        double nanoseconds, Leaf inside) {
  shared_ = shared;
  inside_shared_ = std::move(inside);
  shared_ns_ = nanoseconds;
  const KernelStage& stage = frame_.kernel.stages[stage_];
  for (size_t r = 0; r < names.size(); ++r) names_[static_cast<size_t>(stage.rows[r])] = names[r];
  return parallel_loops();
}

nest::Block PieceLowering::in_rows(const std::vector<Position>& rows, size_t shared) {
  State s = whole_box();
  const KernelStage& stage = frame_.kernel.stages[stage_];
  for (size_t r = 0; r < rows.size(); ++r) s.at[static_cast<size_t>(stage.rows[r])] = rows[r];
  return outer_loops(shared, std::move(s));
}

namespace {

// Buffers of the results that live for a block of rows.
std::vector<int> make_row_buffers(Frame& frame, const std::vector<int64_t>& blocks) {
  RowMap map = row_map(frame.kernel);
  std::vector<int> buffers;
  for (const KernelStage& stage : frame.kernel.stages) {
    if (stage.residence != Residence::row) continue;
    for (TensorId id : stage.contraction.outputs) {
      if (frame.in_row.contains(id)) continue;
      const BoundTensor& t = frame.tensor(id);
      const std::vector<int>& rows = map.dimensions.at(id);
      Shape shape = t.shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        if (rows[d] >= 0) shape[d] = blocks[static_cast<size_t>(rows[d])];
      }
      frame.in_row[id] = rows;
      buffers.push_back(frame.add_buffer("row", t.type, nest::Scope::scratch, shape));
      frame.buffer_of[id] = buffers.back();
    }
  }
  return buffers;
}

// "row0", "row1" … with a letter more where an unknown has that name.
std::vector<std::string> row_names(size_t count, const std::vector<PieceLowering>& stages) {
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

}  // namespace

nest::Block lower_rows(Frame& frame, const Schedule& schedule) {
  const std::vector<KernelStage>& stages = frame.kernel.stages;
  const KernelStage& first = stages[0];
  const Piece& piece = first.contraction.pieces[0];
  size_t rows = first.rows.size();
  std::vector<int64_t> blocks;
  for (int u : first.rows) {
    blocks.push_back(piece.box[static_cast<size_t>(u)]);
    if (blocks.back() <= 0) return {};
  }
  for (size_t i = 0; i < schedule.shared; ++i) {
    const Loop& l = schedule.stages[0][0].outer[i];
    auto row = std::find(first.rows.begin(), first.rows.end(), l.unknown) - first.rows.begin();
    int64_t& block = blocks[static_cast<size_t>(row)];
    block = std::min(block, l.step);
  }
  std::vector<int> buffers = make_row_buffers(frame, blocks);
  nest::Block out;
  std::vector<PieceLowering> lowerings;
  double nanoseconds = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].attach >= 0) continue;
    const Contraction& c = stages[s].contraction;
    lowerings.emplace_back(frame, s, 0, schedule.stages[s][0]);
    lowerings.back().prepare(out);
    nanoseconds +=
        piece_nanoseconds(c.pieces[0], c, frame.kernel, schedule.stages[s][0], frame.target);
  }
  PieceLowering loops(frame, 0, 0, schedule.stages[0][0]);
  append(out, loops.shared_loops(schedule.shared, row_names(rows, lowerings), nanoseconds,
                                 [&](const State& s) {
                                   nest::Block body;
                                   for (int id : buffers) body.push_back({nest::Alloc{id}});
                                   std::vector<Position> at;
                                   frame.row_begin.clear();
                                   for (int u : first.rows) {
                                     at.push_back(s.at[static_cast<size_t>(u)]);
                                     frame.row_begin.push_back(tidy(at.back().begin()));
                                   }
                                   for (PieceLowering& stage : lowerings) {
                                     append(body, stage.in_rows(at, schedule.shared));
                                   }
                                   return body;
                                 }));
  return out;
}

}  // namespace tile::lowering
