// Splits a normalized program into kernels. A pointwise statement that reads a kernel's result cell
// by cell attaches to it: what it costs there is its arithmetic, what it saves is a pass over
// memory.
#include "core/fusion/group.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/fusion/peel_remainder.h"
#include "core/fusion/verify_steps.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/collapse.h"
#include "core/kernel/coverage.h"
#include "core/support/control.h"

namespace tile {
namespace {

constexpr size_t kMostStages = 12;
constexpr size_t kMostReads = 24;

// The load reads exactly the cell that the statement's own iterators name: every iterator of more
// than one value stands alone in one dimension and runs over all of it.
bool reads_own_cell(const Piece& piece, const Access& load, const Shape& shape) {
  std::vector<bool> fixed(piece.iterators.size(), false);
  for (size_t d = 0; d < shape.size(); ++d) {
    const Index& index = load.index[d];
    if (index.value >= 0 || index.boundary != Boundary::in_range) return false;
    if (index.affine == constant_affine(0) && shape[d] == 1) continue;
    bool alone = false;
    for (size_t u = 0; u < piece.iterators.size(); ++u) {
      if (!(index.affine == iterator_affine(u)) || fixed[u] || piece.box[u] != shape[d]) continue;
      fixed[u] = true;
      alone = true;
    }
    if (!alone) return false;
  }
  for (size_t u = 0; u < piece.iterators.size(); ++u) {
    if (!fixed[u] && piece.box[u] != 1) return false;
  }
  return true;
}

bool is_pointwise(const Contraction& c, const std::vector<BoundTensor>& tensors) {
  return c.normalized && c.outputs.size() == 1 && c.pieces.size() == 1 && !c.fill &&
         c.pieces[0].parallel_dims == c.pieces[0].iterators.size() &&
         c.pieces[0].constraints.empty() && covers_output(c, tensors);
}
bool takes_attachments(const Contraction& c, const std::vector<BoundTensor>& tensors) {
  return c.normalized && c.outputs.size() == 1 && c.pieces.size() == 1 && covers_output(c, tensors);
}

class Grouping {
 public:
  Grouping(const BoundProgram& program, const Target& target, const GroupOptions& options)
      : program_(program), target_(target), options_(options), tensors_(program.tensors) {}

  std::vector<Step> run() {
    note_readers();
    for (size_t i = 0; i < program_.statements.size(); ++i) place(i);
    fuse();
    for (Step& step : steps_) {
      Kernel* kernel = std::get_if<Kernel>(&step);
      if (kernel == nullptr) continue;
      finish(*kernel);
      if (!is_gpu(target_)) drop_points(*kernel);
      collapse(*kernel);
      if (!is_gpu(target_)) peel_remainder(*kernel, target_);
    }
    verify(steps_, program_);
    if (options_.after) options_.after("finish", steps_);
    return std::move(steps_);
  }

 private:
  // Each fusion leaves an order in which everything is made before it is read.
  void fuse() {
    auto complete = [this](Kernel& k) { finish(k); };
    auto fused = [&](std::string_view fusion, std::vector<Step> steps) {
      steps_ = std::move(steps);
      verify_order(steps_, program_);
      if (options_.after) options_.after(fusion, steps_);
    };
    fused("attach", std::move(steps_));
    if (!is_gpu(target_)) {
      fused("streams",
            fuse_streams(std::move(steps_), program_, target_, complete, gone_, options_.streams));
      fused("siblings",
            fuse_siblings(std::move(steps_), program_, target_, complete, options_.siblings));
      fused("pools", fuse_pools(std::move(steps_), program_, target_, complete, options_.pools));
    }
    fused("rows", fuse_rows(std::move(steps_), program_, target_, complete, options_.rows));
  }

  const BoundTensor& tensor(TensorId id) const { return program_.tensors[static_cast<size_t>(id)]; }

  void place(size_t i) {
    checkpoint();
    const BoundStatement& statement = program_.statements[i];
    const Contraction* c = std::get_if<Contraction>(&statement);
    std::optional<size_t> host = c != nullptr ? host_of(*c) : std::nullopt;
    size_t at = host.value_or(steps_.size());
    if (c != nullptr) note_cells(*c, host);
    if (host) {
      KernelStage stage;
      stage.contraction = *c;
      stage.attach = 0;
      std::get<Kernel>(steps_[at]).stages.push_back(std::move(stage));
    } else if (c != nullptr) {
      Kernel kernel;
      KernelStage stage;
      stage.contraction = *c;
      kernel.stages.push_back(std::move(stage));
      kernel.tensors = tensors_;
      kernel.name = tensor(c->outputs[0]).name;
      steps_.emplace_back(std::move(kernel));
    } else if (const Sort* sort = std::get_if<Sort>(&statement)) {
      steps_.emplace_back(*sort);
    } else {
      steps_.emplace_back(std::get<Scatter>(statement));
    }
    for (TensorId out : written_by(statement)) made_at_[out] = at;
  }

  // The step in whose tile the statement can be computed: the latest producer of its operands, if
  // that result is read cell by cell and all other operands are older.
  std::optional<size_t> host_of(const Contraction& c) const {
    if (!is_pointwise(c, program_.tensors)) return std::nullopt;
    const Piece& piece = c.pieces[0];
    std::optional<size_t> host;
    for (const Access& load : piece.loads) {
      auto it = made_at_.find(storage_of(program_, load.tensor));
      if (it != made_at_.end()) host = std::max(host.value_or(0), it->second);
    }
    if (!host) return std::nullopt;
    const Kernel* kernel = std::get_if<Kernel>(&steps_[*host]);
    if (kernel == nullptr || kernel->stages.size() >= kMostStages) return std::nullopt;
    if (!takes_attachments(kernel->stages[0].contraction, program_.tensors)) return std::nullopt;
    size_t reads = piece.loads.size();
    for (const KernelStage& s : kernel->stages) reads += s.contraction.pieces[0].loads.size();
    if (reads > kMostReads) return std::nullopt;
    for (const Access& load : piece.loads) {
      auto it = made_at_.find(storage_of(program_, load.tensor));
      if (it == made_at_.end() || it->second != *host) continue;
      bool direct = !tensor(load.tensor).view_of.has_value();
      if (!direct || !reads_own_cell(piece, load, tensor(load.tensor).shape)) return std::nullopt;
    }
    if (!iterators_at(piece, *host)) return std::nullopt;
    return host;
  }

  // The statement's iterators at a cell of the kernel's first result. Nothing where its operands
  // disagree: a result of the kernel and its transpose, say, are not known at the same time.
  std::optional<std::vector<Affine>> iterators_at(const Piece& piece, size_t host) const {
    std::vector<std::optional<Affine>> at(piece.iterators.size());
    for (const Access& load : piece.loads) {
      auto it = made_at_.find(load.tensor);
      if (it == made_at_.end() || it->second != host) continue;
      const std::vector<Affine>& cell = cells_.at(load.tensor);
      for (size_t d = 0; d < load.index.size(); ++d) {
        for (size_t u = 0; u < at.size(); ++u) {
          if (!(load.index[d].affine == iterator_affine(u)) || piece.box[u] == 1) continue;
          if (at[u] && !(*at[u] == cell[d])) return std::nullopt;
          at[u] = cell[d];
        }
      }
    }
    std::vector<Affine> values;
    for (const std::optional<Affine>& value : at) {
      values.push_back(value.value_or(constant_affine(0)));
    }
    return values;
  }

  // Which cell of each result is computed where the first result's cell is.
  void note_cells(const Contraction& c, std::optional<size_t> host) {
    for (size_t o = 0; o < c.outputs.size(); ++o) {
      std::vector<Affine>& cell = cells_[c.outputs[o]];
      cell.clear();
      size_t rank = tensor(c.outputs[o]).shape.size();
      for (size_t d = 0; !host && d < rank; ++d) cell.push_back(iterator_affine(d));
      if (!host) continue;
      std::vector<Affine> at = *iterators_at(c.pieces[0], *host);
      for (const Index& index : c.pieces[0].stores[o].index) {
        cell.push_back(substitute(index.affine, at));
      }
    }
  }

  // Where each stage's result is needed outside its own kernel, and the kernel's arguments.
  void finish(Kernel& kernel) const {
    std::set<TensorId> made;
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
        outside = outside || needed_outside(out, kernel);
      }
      bool several = stage.contraction.outputs.size() > 1 && row_loops(kernel) == 0;
      bool apart = outside || several;
      stage.residence = apart                        ? Residence::global
                        : read_in_row(stage, kernel) ? Residence::row
                                                     : Residence::registers;
      for (TensorId out : stage.contraction.outputs) {
        if (apart) list(kernel.writes, out);
      }
    }
  }
  // A stage with loops of its own, or attached to another one, reads the result.
  static bool read_in_row(const KernelStage& maker, const Kernel& kernel) {
    auto tile = [&](const KernelStage& stage) {
      const KernelStage* at = &stage;
      while (at->attach >= 0) at = &kernel.stages[static_cast<size_t>(at->attach)];
      return at;
    };
    return std::any_of(kernel.stages.begin(), kernel.stages.end(), [&](const KernelStage& s) {
      if (tile(s) == tile(maker)) return false;
      std::vector<TensorId> reads = read_by(BoundStatement(s.contraction));
      return std::any_of(reads.begin(), reads.end(), [&](TensorId id) {
        const std::vector<TensorId>& outputs = maker.contraction.outputs;
        return std::find(outputs.begin(), outputs.end(), id) != outputs.end();
      });
    });
  }
  // Who reads what, and what is viewed or an output: programs may have tens of thousands of each.
  void note_readers() {
    for (const BoundTensor& t : program_.tensors) {
      if (t.view_of) kept_.insert(*t.view_of);
    }
    kept_.insert(program_.outputs.begin(), program_.outputs.end());
    for (const BoundStatement& s : program_.statements) {
      checkpoint();
      for (TensorId id : read_by(s)) {
        std::vector<const BoundStatement*>& all = readers_[id];
        if (all.empty() || all.back() != &s) all.push_back(&s);
      }
    }
  }

  bool needed_outside(TensorId id, const Kernel& kernel) const {
    if (kept_.contains(id)) return true;
    bool read_here = false;
    for (const KernelStage& stage : kernel.stages) {
      for (TensorId read : read_by(BoundStatement(stage.contraction))) {
        read_here = read_here || read == id;
      }
    }
    if (!read_here) return true;
    auto readers = readers_.find(id);
    if (readers == readers_.end()) return false;
    return std::any_of(
        readers->second.begin(), readers->second.end(), [&](const BoundStatement* s) {
          std::vector<TensorId> writes = written_by(*s);
          if (std::all_of(writes.begin(), writes.end(),
                          [&](TensorId w) { return gone_.contains(w); })) {
            return false;
          }
          return std::none_of(kernel.stages.begin(), kernel.stages.end(), [&](const auto& stage) {
            return stage.contraction.outputs == writes;
          });
        });
  }

  const BoundProgram& program_;
  const Target& target_;
  const GroupOptions& options_;
  TensorTable tensors_;
  std::vector<Step> steps_;
  std::map<TensorId, std::vector<const BoundStatement*>> readers_;
  std::set<TensorId> kept_;  // views of them or the program's caller need them
  std::set<TensorId> gone_;  // no kernel makes them: what reads them is written otherwise
  std::map<TensorId, size_t> made_at_;
  std::map<TensorId, std::vector<Affine>> cells_;  // in the first result's coordinates
};

}  // namespace

std::vector<Step> group(const BoundProgram& program, const Target& target) {
  return group(program, target, GroupOptions{});
}
std::vector<Step> group(const BoundProgram& program, const Target& target,
                        const GroupOptions& options) {
  return Grouping(program, target, options).run();
}

}  // namespace tile
