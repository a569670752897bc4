// An extent that is open wherever it leads, told from one kernel's accesses alone.
#include <algorithm>
#include <map>
#include <set>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/coverage.h"
#include "core/schedule/facts/piece_facts.h"
#include "core/schedule/search/dynamic_extent.h"

namespace tile {
namespace {

// The iterators that walk the dimension: of a kernel with rows, those of one row.
class Walkers {
 public:
  explicit Walkers(const Kernel& kernel);
  // Of a piece of the stage; none where nothing walks the dimension alone.
  IteratorId of(StageId stage, const Piece& piece) const;

 private:
  bool rows_ = false;
  IdVector<StageId, IteratorId> of_stage_;  // of a kernel with rows
};

IteratorId first_index(const Piece& piece) {
  const Access& store = piece.stores[0];
  if (store.index.empty()) return {};
  return sole_iterator(store.index[0], piece);
}

// The row is the one that walks dimension 0 of the last result.
Walkers::Walkers(const Kernel& kernel) : rows_(row_loops(kernel) > 0) {
  of_stage_.resize(kernel.stages.size());
  if (!rows_) return;
  RowMap map = row_map(kernel);
  StageId last(kernel.stages.size() - 1);
  IteratorId walker = first_index(kernel.stages[last].contraction.pieces[0]);
  const auto& of_last = map.iterators[last];
  if (!of_last.contains(walker) || !of_last[walker].valid()) return;
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    const auto& rows = map.iterators[s];
    auto at = std::find(rows.begin(), rows.end(), of_last[walker]);
    if (at != rows.end()) {
      of_stage_[s] = IteratorId(static_cast<size_t>(at - rows.begin()));
    }
  }
}
IteratorId Walkers::of(StageId stage, const Piece& piece) const {
  return rows_ ? of_stage_[stage] : first_index(piece);
}

// Gathers the tensors whose first dimension the walking iterators run over.
class Finder {
 public:
  explicit Finder(const Kernel& kernel) : kernel_(kernel) {
    for (const KernelStage& stage : kernel.stages) {
      if (stage.residence == Residence::global || row_loops(kernel) == 0) continue;
      row_results_.insert(stage.contraction.outputs.begin(), stage.contraction.outputs.end());
    }
  }

  // Nothing but what has to be so for a nest that leaves the extent to launches.
  std::optional<DynamicExtent> run() {
    bool pieces = std::none_of(kernel_.stages.begin(), kernel_.stages.end(),
                               [](const auto& s) { return s.contraction.pieces.empty(); });
    if (!pieces) return std::nullopt;
    walkers_.emplace(kernel_);
    const Piece& first = kernel_.stages[0].contraction.pieces[0];
    IteratorId walker = walkers_->of(StageId(0), first);
    if (!walker.valid()) return std::nullopt;
    size_ = first.box[walker];
    if (size_ < 2) return std::nullopt;
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      if (!fits(StageId(s))) return std::nullopt;
    }
    // Where the walker is not in the first dimension of a tensor, no one else is.
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      for (const Piece& piece : kernel_.stages[s].contraction.pieces) {
        if (!every_access_walks(StageId(s), piece)) return std::nullopt;
      }
    }
    return found();
  }
  int64_t size() const { return size_; }

 private:
  const Shape& shape(TensorId id) const { return kernel_.tensors[id].shape; }

  bool fits(StageId number) {
    const KernelStage& stage = kernel_.stages[number];
    const Contraction& c = stage.contraction;
    bool whole = stage.attach.valid() || covers_output(c, kernel_.tensors);
    return whole && !c.fill && std::all_of(c.pieces.begin(), c.pieces.end(), [&](const Piece& p) {
             return fits(number, p);
           });
  }
  bool fits(StageId stage, const Piece& piece) {
    IteratorId walker = walkers_->of(stage, piece);
    if (!walker.valid()) return false;
    bool free = piece.is_parallel(walker) && piece.box[walker] == size_ &&
                !is_constrained(piece, walker) && !names_index(piece.body, walker.index());
    auto walked = [&](const Access& a) { return walks(a, walker, piece); };
    return free && std::all_of(piece.stores.begin(), piece.stores.end(), walked) &&
           std::all_of(piece.loads.begin(), piece.loads.end(), walked);
  }
  // The access has the walker in dimension 0, alone and over all of it, or nowhere; where it is
  // of what lives for a block of rows, in any dimension.
  bool walks(const Access& a, IteratorId walker, const Piece& piece) {
    for (size_t d = 0; d < a.index.size(); ++d) {
      bool here = !a.index[d].affine.coefficient(walker).is_zero();
      if (!here) continue;
      bool lives_in_rows = row_results_.contains(a.tensor);
      bool plain = (d == 0 || lives_in_rows) && sole_iterator(a.index[d], piece) == walker &&
                   shape(a.tensor)[d] == size_;
      if (!plain) return false;
      if (dimensions_.try_emplace(a.tensor, d).first->second != d) return false;
    }
    return true;
  }
  bool every_access_walks(StageId stage, const Piece& piece) const {
    IteratorId walker = walkers_->of(stage, piece);
    auto walked = [&](const Access& a) {
      auto at = dimensions_.find(a.tensor);
      if (at == dimensions_.end()) return true;
      return sole_iterator(a.index[at->second], piece) == walker;
    };
    return std::all_of(piece.stores.begin(), piece.stores.end(), walked) &&
           std::all_of(piece.loads.begin(), piece.loads.end(), walked);
  }

  DynamicExtent found() const {
    DynamicExtent extent;
    for (auto [tensor, d] : dimensions_) extent.dimensions.push_back({tensor, d, {}});
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      const std::vector<Piece>& pieces = kernel_.stages[s].contraction.pieces;
      for (size_t p = 0; p < pieces.size(); ++p) {
        extent.walks.push_back({{StageId(s), p}, walkers_->of(StageId(s), pieces[p]), {}});
      }
    }
    return extent;
  }

  const Kernel& kernel_;
  std::optional<Walkers> walkers_;
  std::set<TensorId> row_results_;  // that live for a block of rows
  int64_t size_ = 0;
  std::map<TensorId, size_t> dimensions_;
};

// Products and windows; what has less work is compiled for its sizes.
bool is_heavy(const Kernel& kernel, const Target& target) {
  double total = 0;
  const Contraction& c = kernel.stages[0].contraction;
  for (const Piece& piece : c.pieces) {
    KernelClass kind = classify(piece, c, kernel.tensors).kind;
    if (kind != KernelClass::matrix && kind != KernelClass::windowed) return false;
    PieceFacts facts(piece, c, kernel, target);
    total += facts.points() / static_cast<double>(facts.lanes) * facts.body * facts.cycle_ns;
  }
  return total >= target.class_work_ns;
}

}  // namespace

std::optional<ClassKernel> with_open_extent(const Kernel& kernel, const Target& target) {
  if (is_gpu(target)) return std::nullopt;
  Finder finder(kernel);
  std::optional<DynamicExtent> extent = finder.run();
  if (!extent) return std::nullopt;
  int64_t size = finder.size();
  SizeSpan span = span_of(size);
  ClassKernel found{with_size(kernel, *extent, span.typical), std::move(*extent), size, span};
  return complete(found) ? std::optional(std::move(found)) : std::nullopt;
}

std::optional<ClassKernel> for_class_of_sizes(const Kernel& kernel, const Target& target) {
  if (row_loops(kernel) > 0) return std::nullopt;
  std::optional<ClassKernel> found = with_open_extent(kernel, target);
  if (!found) return std::nullopt;
  bool heavy = is_heavy(with_size(found->kernel, found->extent, found->span.most), target);
  return heavy ? std::move(found) : std::nullopt;
}

}  // namespace tile
