// Making statements kernels, and completing kernels once fusion is done with them.
#include <algorithm>

#include "core/fusion/fusion_passes.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/rows.h"
#include "core/support/control.h"

namespace tile::fusion {
namespace {

// What each stage reads, looked through once.
using StageReads = std::vector<std::vector<TensorId>>;
StageReads reads_of_stages(const Kernel& kernel) {
  StageReads reads;
  for (const KernelStage& stage : kernel.stages) reads.push_back(read_by(stage.contraction));
  return reads;
}

// A stage with loops of its own, or attached to another one, reads the result.
bool read_in_row(const KernelStage& maker, const Kernel& kernel, const StageReads& reads) {
  auto tile = [&](const KernelStage& stage) {
    const KernelStage* at = &stage;
    while (at->attach.valid()) at = &kernel.stages[at->attach];
    return at;
  };
  for (StageId s : kernel.stages.ids()) {
    if (tile(kernel.stages[s]) == tile(maker)) continue;
    const std::vector<TensorId>& read = reads[s.index()];
    bool here = std::any_of(read.begin(), read.end(),
                            [&](TensorId id) { return contains(maker.contraction.outputs, id); });
    if (here) return true;
  }
  return false;
}

}  // namespace

bool Completion::read_inside(const BoundStatement& reader, const Kernel& kernel) const {
  std::vector<TensorId> writes = written_by(reader);
  return std::all_of(writes.begin(), writes.end(), [&](TensorId w) {
    TensorId instead = gone.at(w);
    return !instead.valid() ||
           std::any_of(kernel.stages.begin(), kernel.stages.end(), [&](const KernelStage& stage) {
             return contains(stage.contraction.outputs, instead);
           });
  });
}

bool Completion::needed_outside(TensorId id, const Kernel& kernel,
                                const std::vector<std::vector<TensorId>>& reads) const {
  if (!uses_.is_inner(id)) return true;
  bool read_here = std::any_of(reads.begin(), reads.end(),
                               [&](const auto& of_stage) { return contains(of_stage, id); });
  if (!read_here) return true;
  const std::vector<size_t>& readers = uses_.readers(id);
  return std::any_of(readers.begin(), readers.end(), [&](size_t i) {
    const BoundStatement& reader = program_.statements[i];
    std::vector<TensorId> writes = written_by(reader);
    if (std::all_of(writes.begin(), writes.end(), [&](TensorId w) { return gone.contains(w); })) {
      return !read_inside(reader, kernel);
    }
    // A stage may make the results of several statements that were joined.
    return std::none_of(kernel.stages.begin(), kernel.stages.end(), [&](const auto& stage) {
      return std::all_of(writes.begin(), writes.end(),
                         [&](TensorId w) { return contains(stage.contraction.outputs, w); });
    });
  });
}

void Completion::complete(Kernel& kernel) const {
  std::set<TensorId> made;
  const StageReads reads = reads_of_stages(kernel);
  auto list = [](std::vector<TensorId>& ids, TensorId id) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  };
  for (KernelStage& stage : kernel.stages) {
    for (const Piece& piece : stage.contraction.pieces) {
      for (const Access& a : piece.loads) {
        if (!made.contains(a.tensor)) list(kernel.reads, a.tensor);
      }
    }
    const std::optional<TensorId>& fill = stage.contraction.fill;
    if (fill && !made.contains(*fill)) list(kernel.reads, *fill);
    bool outside = false;
    for (TensorId out : stage.contraction.outputs) {
      made.insert(out);
      outside = outside || needed_outside(out, kernel, reads);
    }
    bool several = stage.contraction.outputs.size() > 1 && row_loops(kernel) == 0;
    bool apart = outside || several;
    stage.residence = apart                               ? Residence::global
                      : read_in_row(stage, kernel, reads) ? Residence::row
                                                          : Residence::registers;
    for (TensorId out : stage.contraction.outputs) {
      if (apart) list(kernel.writes, out);
    }
  }
}

void make_kernels(State& state) {
  const BoundTensors& tensors = state.program.tensors;
  for (const BoundStatement& statement : state.program.statements) {
    checkpoint();
    if (const auto* c = std::get_if<Contraction>(&statement)) {
      Kernel kernel;
      kernel.stages.emplace_back().contraction = *c;
      kernel.tensors = tensors;
      kernel.name = tensors[c->outputs[0]].name;
      state.steps.emplace_back(std::move(kernel));
    } else if (const auto* sort = std::get_if<Sort>(&statement)) {
      state.steps.emplace_back(*sort);
    } else if (const auto* repeat = std::get_if<BoundRepeat>(&statement)) {
      state.steps.emplace_back(*repeat);
    } else {
      state.steps.emplace_back(std::get<Scatter>(statement));
    }
  }
}

void complete_kernels(State& state) {
  for (Step& step : state.steps) {
    if (auto* kernel = std::get_if<Kernel>(&step)) state.completion.complete(*kernel);
  }
}

}  // namespace tile::fusion
