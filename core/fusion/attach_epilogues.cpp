// A pointwise statement that reads a kernel's result cell by cell attaches to it.
#include <algorithm>
#include <optional>

#include "core/fusion/fusion_passes.h"
#include "core/fusion/step_order.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/coverage.h"
#include "core/support/control.h"

namespace tile::fusion {
namespace {

constexpr size_t kMostStages = 12;
constexpr size_t kMostReads = 24;

bool is_pointwise(const Contraction& c, const BoundTensors& tensors) {
  return is_plain_contraction(c) && c.pieces[0].parallel_dims == c.pieces[0].iterators.size() &&
         c.pieces[0].constraints.empty() && covers_output(c, tensors);
}
bool takes_attachments(const Contraction& c, const BoundTensors& tensors) {
  return c.normalized && c.outputs.size() == 1 && c.pieces.size() == 1 && covers_output(c, tensors);
}

class Attachment {
 public:
  explicit Attachment(State& state) : program_(state.program), from_(std::move(state.steps)) {}

  std::vector<Step> run() {
    for (Step& step : from_) place(std::move(step));
    return std::move(steps_);
  }

 private:
  const BoundTensor& tensor(TensorId id) const { return program_.tensors[id]; }

  void place(Step step) {
    checkpoint();
    Kernel* kernel = std::get_if<Kernel>(&step);
    Contraction* c = kernel != nullptr ? &kernel->stages[0].contraction : nullptr;
    std::optional<size_t> host = c != nullptr ? host_of(*c) : std::nullopt;
    size_t at = host.value_or(steps_.size());
    if (c != nullptr) note_cells(*c, host);
    for (TensorId out : made_by(step)) made_at_[out] = at;
    if (host) {
      KernelStage stage;
      stage.contraction = std::move(*c);
      stage.attach = StageId(0);
      std::get<Kernel>(steps_[at]).stages.push_back(std::move(stage));
    } else {
      steps_.push_back(std::move(step));
    }
  }
  static std::vector<TensorId> made_by(const Step& step) {
    if (const auto* kernel = std::get_if<Kernel>(&step)) {
      return kernel->stages[0].contraction.outputs;
    }
    return written_by(statement_of(step));
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

  const BoundProgram& program_;
  std::vector<Step> from_;
  std::vector<Step> steps_;
  std::map<TensorId, size_t> made_at_;
  std::map<TensorId, std::vector<Affine>> cells_;  // in the first result's coordinates
};

}  // namespace

void attach_epilogues(State& state) { state.steps = Attachment(state).run(); }

}  // namespace tile::fusion
