#include "core/schedule/search/dynamic_extent.h"

#include <algorithm>
#include <set>

#include "core/ir/analysis/uses.h"
#include "core/kernel/canonical.h"
#include "core/kernel/collapse.h"
#include "core/kernel/coverage.h"
#include "core/schedule/facts/piece_facts.h"

namespace tile {
namespace {

// Sizes in (8^k, 8^(k + 1)] are one class: 64 batches span at most three.
constexpr int64_t kClassRatio = 8;
// Blocks up to this size have code of their own for each size that is left of one.
constexpr int64_t kEachSize = 8;
// Far from where indices in bytes overflow.
constexpr int64_t kMostBytes = int64_t{1} << 46;

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
    return std::move(found_);
  }

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
    bool free =
        piece.is_parallel(walker) && piece.box[walker] == size_ &&
        std::all_of(piece.constraints.begin(), piece.constraints.end(),
                    [&](const Constraint& c) { return c.form.coefficient(walker).is_zero(); });
    visit_nodes(piece.body, [&](const Node& node) {
      free = free && !(node.kind == NodeKind::index && node.slot == walker.index());
    });
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
      bool plain = (d == 0 || lives_in_rows) &&
                   sole_iterator(a.index[d], piece.iterators.size()) == walker &&
                   shape(a.tensor)[d] == size_;
      if (!plain) return false;
      if (lives_in_rows) {
        if (found_.in_rows.try_emplace(a.tensor, d).first->second != d) return false;
        continue;
      }
      if (!contains(found_.tensors, a.tensor)) found_.tensors.push_back(a.tensor);
    }
    return true;
  }
  bool every_access_walks(StageId stage, const Piece& piece) const {
    IteratorId walker = walkers_->of(stage, piece);
    auto walked = [&](const Access& a) {
      auto in_rows = found_.in_rows.find(a.tensor);
      bool known = in_rows != found_.in_rows.end();
      if (!known && !contains(found_.tensors, a.tensor)) return true;
      const Index& index = a.index[known ? in_rows->second : 0];
      return sole_iterator(index, piece.iterators.size()) == walker;
    };
    return std::all_of(piece.stores.begin(), piece.stores.end(), walked) &&
           std::all_of(piece.loads.begin(), piece.loads.end(), walked);
  }

  const Kernel& kernel_;
  std::optional<Walkers> walkers_;
  std::set<TensorId> row_results_;  // that live for a block of rows
  int64_t size_ = 0;
  DynamicExtent found_;
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

namespace {

// The program's other tensors may have the size too, and the shapes before merging.
void forget_others(Kernel& kernel) {
  kernel.shapes.clear();  // needed for strided tensors alone
  IdVector<TensorId, bool> named(kernel.tensors.size());
  auto name = [&](TensorId id) {
    named[id] = true;
    const std::optional<TensorId>& whole = kernel.tensors[id].view_of;
    if (whole) named[*whole] = true;
  };
  for (const KernelStage& stage : kernel.stages) {
    std::for_each(stage.contraction.outputs.begin(), stage.contraction.outputs.end(), name);
    for (const Piece& piece : stage.contraction.pieces) {
      for (const Access& a : piece.stores) name(a.tensor);
      for (const Access& a : piece.loads) name(a.tensor);
    }
  }
  for (size_t i = 0; i < named.size(); ++i) {
    if (!named[i]) kernel.tensors.change()[i] = {};
  }
}

}  // namespace

Kernel with_size(const Kernel& kernel, const DynamicExtent& extent, int64_t size) {
  Kernel other = kernel;
  for (TensorId id : extent.tensors) other.tensors.change()[id].shape[0] = size;
  for (auto [id, dimension] : extent.in_rows) other.tensors.change()[id].shape[dimension] = size;
  Walkers walkers(kernel);
  for (size_t s = 0; s < other.stages.size(); ++s) {
    for (Piece& piece : other.stages[s].contraction.pieces)
      piece.box[walkers.of(StageId(s), piece)] = size;
  }
  return other;
}

namespace {

IteratorId first_index(const Piece& piece) {
  const Access& store = piece.stores[0];
  if (store.index.empty()) return {};
  return sole_iterator(store.index[0], piece.iterators.size());
}

}  // namespace

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

SizeSpan span_of(int64_t size) {
  int64_t end = kClassRatio;
  while (end < size) end *= kClassRatio;
  // The middle of the class, or all of the smallest one.
  return {end == kClassRatio ? 1 : end / kClassRatio + 1, std::max(kClassRatio, end / 2), end};
}

namespace {

int64_t walked(const Kernel& kernel) {
  const Piece& piece = kernel.stages[0].contraction.pieces[0];
  return piece.box[Walkers(kernel).of(StageId(0), piece)];
}

// Completes the kernel, in which the extent is the typical one; false where the one at hand is more
// than the nest's indices hold.
bool complete(ClassKernel& found) {
  forget_others(found.kernel);
  int64_t row = 1, typical = walked(found.kernel);
  for (TensorId id : found.extent.tensors) {
    // A copy would be of one size.
    BoundTensors& tensors = found.kernel.tensors.change();
    BoundTensor& t = tensors[id];
    t.fixed = false;
    if (t.view_of) tensors[*t.view_of].fixed = false;
    int64_t bytes = element_count(t.shape) / typical * static_cast<int64_t>(byte_size(t.type));
    row = std::max(row, bytes);
  }
  found.extent.most = kMostBytes / row;
  return found.size <= found.extent.most;
}

// The kernel as text, without what does not matter to a class: an alternative that was looked at
// and not taken may leave other numbers of tensors behind.
std::string text_of(const Kernel& whole) {
  Kernel kernel = canonical(whole);
  kernel.shapes.clear();
  std::set<TensorId> accessed;
  for (const KernelStage& stage : kernel.stages) {
    for (const Piece& piece : stage.contraction.pieces) {
      for (const Access& a : piece.stores) accessed.insert(a.tensor);
      for (const Access& a : piece.loads) accessed.insert(a.tensor);
    }
  }
  // What is seen under another shape alone.
  for (size_t i = 0; i < kernel.tensors.size(); ++i) {
    if (!accessed.contains(TensorId(i))) kernel.tensors.change()[i].shape.clear();
  }
  return print(kernel);
}

}  // namespace

std::optional<ClassKernel> with_open_extent(const Kernel& kernel, const Target& target) {
  if (is_gpu(target)) return std::nullopt;
  std::optional<DynamicExtent> extent = Finder(kernel).run();
  if (!extent) return std::nullopt;
  int64_t size = walked(kernel);
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

std::optional<ClassKernel> for_instances(const Kernel& typical, const Kernel& other,
                                         const Target& target, const Instances& of) {
  if (is_gpu(target)) return std::nullopt;
  Kernel kernel = canonical(typical);
  kernel.name = typical.name;
  kernel.shapes.clear();
  std::optional<DynamicExtent> extent = Finder(kernel).run();
  if (!extent) return std::nullopt;
  int64_t size = walked(kernel);
  ClassKernel found{std::move(kernel), std::move(*extent), size, {}};
  std::optional<int64_t> second = extent_in(found, other);
  if (!second || *second == size) return std::nullopt;
  // The extent grows with the program's size.
  auto at = [&](int64_t n) {
    int64_t moved = (size - *second) * (n - of.span.typical) / (of.span.typical - of.other);
    return std::max<int64_t>(1, size + moved);
  };
  found.span = {at(of.span.least), size, at(of.span.most)};
  return complete(found) ? std::optional(std::move(found)) : std::nullopt;
}

std::optional<int64_t> extent_in(const ClassKernel& of, const Kernel& kernel) {
  bool alike = kernel.stages.size() == of.kernel.stages.size() &&
               !kernel.stages[0].contraction.pieces.empty();
  if (!alike) return std::nullopt;
  const Piece& piece = kernel.stages[0].contraction.pieces[0];
  IteratorId walker = Walkers(of.kernel).of(StageId(0), of.kernel.stages[0].contraction.pieces[0]);
  if (!piece.box.contains(walker)) return std::nullopt;
  int64_t size = piece.box[walker];
  if (size < 1 || (of.extent.most > 0 && size > of.extent.most)) return std::nullopt;
  bool same = text_of(with_size(of.kernel, of.extent, size)) == text_of(kernel);
  return same ? std::optional(size) : std::nullopt;
}

std::vector<int64_t> short_blocks(int64_t step, int64_t typical) {
  std::vector<int64_t> sizes;
  if (typical <= step && step <= kEachSize) {  // the one block there is
    for (int64_t size = step - 1; size >= 1; --size) sizes.push_back(size);
    return sizes;
  }
  for (int64_t size = step; size > 1;) sizes.push_back(size = ceil_div(size, 2));
  return sizes;
}

}  // namespace tile
