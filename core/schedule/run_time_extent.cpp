#include "core/schedule/run_time_extent.h"

#include <algorithm>
#include <limits>

#include "core/passes/uses.h"
#include "core/schedule/collapse.h"
#include "core/schedule/cost.h"
#include "core/schedule/lowering.h"

namespace tile {
namespace {

// Sizes in (8^k, 8^(k + 1)] are one class: 64 batches span at most three.
constexpr int64_t kClassRatio = 8;
// A size is small while a block of it may as well be all of it.
constexpr int64_t kSmallSize = kClassRatio * kClassRatio;
// Blocks of a large size: so many that what is left of the last one does not show.
constexpr int64_t kManyBlocks = 16;
// Schedules looked at for one that suits a class, and how much more than the best it may cost.
constexpr size_t kCandidates = 48;
constexpr double kClearlyBetter = 1.3;
// Times the best of this size alone, from which it gets code of its own.
constexpr double kWorthOwnCode = 1.5;
constexpr double kTolerated = 1.1;
// Far from where indices in bytes overflow.
constexpr int64_t kMostBytes = int64_t{1} << 46;

int64_t largest_size(int64_t size) {
  int64_t end = kClassRatio;
  while (end < size) end *= kClassRatio;
  return end;
}
// The middle of the class, or all of the smallest one.
int64_t typical_size(int64_t size) { return std::max(kClassRatio, largest_size(size) / 2); }

int64_t smallest_size(int64_t size) {
  int64_t end = largest_size(size);
  return end == kClassRatio ? 1 : end / kClassRatio + 1;
}

// Gathers the tensors whose first dimension the walking unknowns run over.
class Finder {
 public:
  explicit Finder(const Kernel& kernel) : kernel_(kernel) {}

  std::optional<RunTimeExtent> run() {
    bool pieces = std::none_of(kernel_.stages.begin(), kernel_.stages.end(),
                               [](const auto& s) { return s.contraction.pieces.empty(); });
    if (row_loops(kernel_) > 0 || !pieces) return std::nullopt;
    const Piece& first = kernel_.stages[0].contraction.pieces[0];
    int walker = walking_unknown(first);
    if (walker < 0) return std::nullopt;
    size_ = first.box[static_cast<size_t>(walker)];
    if (size_ < 2) return std::nullopt;
    for (const KernelStage& stage : kernel_.stages) {
      if (!fits(stage)) return std::nullopt;
    }
    // Where the walker is not in the first dimension of a tensor, no one else is.
    for (const KernelStage& stage : kernel_.stages) {
      for (const Piece& piece : stage.contraction.pieces) {
        if (!every_access_walks(piece)) return std::nullopt;
      }
    }
    return std::move(found_);
  }

 private:
  const Shape& shape(TensorId id) const { return kernel_.tensors[static_cast<size_t>(id)].shape; }

  bool fits(const KernelStage& stage) {
    const Contraction& c = stage.contraction;
    bool whole = stage.attach >= 0 || lowering::covers_output(c, kernel_.tensors);
    return whole && !c.fill &&
           std::all_of(c.pieces.begin(), c.pieces.end(), [&](const Piece& p) { return fits(p); });
  }
  bool fits(const Piece& piece) {
    int walker = walking_unknown(piece);
    if (walker < 0) return false;
    auto u = static_cast<size_t>(walker);
    bool free = u < piece.owners && piece.box[u] == size_ &&
                std::all_of(
                    piece.constraints.begin(), piece.constraints.end(),
                    [&](const Constraint& c) { return c.form.coefficient(u).is_zero(); });
    visit_nodes(piece.body, [&](const Node& node) {
      free = free && !(node.kind == NodeKind::index && node.slot == walker);
    });
    auto walked = [&](const Access& a) { return walks(a, walker, piece); };
    return free && std::all_of(piece.stores.begin(), piece.stores.end(), walked) &&
           std::all_of(piece.loads.begin(), piece.loads.end(), walked);
  }
  // The access has the walker in dimension 0, alone and over all of it, or nowhere.
  bool walks(const Access& a, int walker, const Piece& piece) {
    for (size_t d = 0; d < a.index.size(); ++d) {
      bool here = !a.index[d].affine.coefficient(static_cast<size_t>(walker)).is_zero();
      if (!here) continue;
      bool plain = d == 0 && sole_unknown(a.index[0], piece.unknowns.size()) == walker &&
                   shape(a.tensor)[0] == size_;
      if (!plain) return false;
      if (!contains(found_.tensors, a.tensor)) found_.tensors.push_back(a.tensor);
    }
    return true;
  }
  bool every_access_walks(const Piece& piece) const {
    int walker = walking_unknown(piece);
    auto walked = [&](const Access& a) {
      return !contains(found_.tensors, a.tensor) ||
             sole_unknown(a.index[0], piece.unknowns.size()) == walker;
    };
    return std::all_of(piece.stores.begin(), piece.stores.end(), walked) &&
           std::all_of(piece.loads.begin(), piece.loads.end(), walked);
  }

  const Kernel& kernel_;
  int64_t size_ = 0;
  RunTimeExtent found_;
};

// Products and windows; what has less work is compiled for its sizes.
bool is_heavy(const Kernel& kernel, const Target& target) {
  double total = 0;
  const Contraction& c = kernel.stages[0].contraction;
  for (const Piece& piece : c.pieces) {
    KernelClass kind = classify(piece, c, kernel.tensors).kind;
    if (kind != KernelClass::matrix && kind != KernelClass::windowed) return false;
    PieceModel model(piece, c, kernel, target);
    double points = 1;
    for (int64_t extent : piece.box) points *= static_cast<double>(extent);
    total += points / static_cast<double>(model.lanes()) * model.body() * model.cycle_ns();
  }
  return total >= target.class_work_ns;
}

Kernel with_size(const Kernel& kernel, const RunTimeExtent& extent, int64_t size) {
  Kernel other = kernel;
  for (TensorId id : extent.tensors) other.tensors[static_cast<size_t>(id)].shape[0] = size;
  for (KernelStage& stage : other.stages) {
    for (Piece& piece : stage.contraction.pieces) {
      piece.box[static_cast<size_t>(walking_unknown(piece))] = size;
    }
  }
  return other;
}

class ClassRules {
 public:
  ClassRules(const ClassKernel& kernel, size_t stage, const PieceSchedule& schedule,
             const Piece& piece)
      : kernel_(kernel.kernel), stage_(stage), s_(schedule), piece_(piece) {
    walker_ = walking_unknown(piece);
    typical_ = piece.box[static_cast<size_t>(walker_)];
  }

  bool hold() const { return s_.carried < 0 && tile() && blocks() && packings() && partials(); }

 private:
  bool over(const Loop& l) const { return l.unknown == walker_; }

  // Unrolled over single cells at most.
  bool tile() const {
    return std::all_of(s_.tile.begin(), s_.tile.end(), [&](const Loop& l) {
      return !over(l) || (l.binding == Binding::unroll && l.step == 1);
    });
  }
  bool blocks() const {
    auto first =
        std::find_if(s_.outer.begin(), s_.outer.end(), [&](const Loop& l) { return over(l); });
    if (first == s_.outer.end()) return false;
    return first->step == 1 || typical_ <= kSmallSize || typical_ >= kManyBlocks * first->step;
  }
  bool packings() const {
    return std::all_of(s_.packings.begin(), s_.packings.end(), [&](const Packing& p) {
      bool whole = std::none_of(s_.outer.begin(), s_.outer.begin() + p.level,
                                [&](const Loop& l) { return over(l); });
      bool packed =
          std::any_of(p.order.begin(), p.order.end(), [&](const Loop& l) { return over(l); });
      return !(whole && packed);
    });
  }
  // Sums of the blocks of a reduction wait in the output itself.
  bool partials() const {
    bool blocked = std::any_of(s_.outer.begin(), s_.outer.end(), [&](const Loop& l) {
      return static_cast<size_t>(l.unknown) >= piece_.owners;
    });
    const Contraction& c = kernel_.stages[stage_].contraction;
    return !blocked || std::all_of(c.outputs.begin(), c.outputs.end(), [&](TensorId id) {
      return contains(kernel_.writes, id) &&
             kernel_.tensors[static_cast<size_t>(id)].type == c.accumulator;
    });
  }

  const Kernel& kernel_;
  size_t stage_;
  const PieceSchedule& s_;
  const Piece& piece_;
  int walker_ = -1;
  int64_t typical_ = 0;
};

}  // namespace

int walking_unknown(const Piece& piece) {
  const Access& store = piece.stores[0];
  return store.index.empty() ? -1 : sole_unknown(store.index[0], piece.unknowns.size());
}

std::optional<ClassKernel> for_class_of_sizes(const Kernel& kernel, const Target& target) {
  if (is_gpu(target)) return std::nullopt;
  std::optional<RunTimeExtent> extent = Finder(kernel).run();
  if (!extent) return std::nullopt;
  const Piece& piece = kernel.stages[0].contraction.pieces[0];
  int64_t size = piece.box[static_cast<size_t>(walking_unknown(piece))];
  ClassKernel found{with_size(kernel, *extent, typical_size(size)), std::move(*extent), size};
  if (!is_heavy(with_size(kernel, found.extent, largest_size(size)), target)) return std::nullopt;
  int64_t row = 1;
  for (TensorId id : found.extent.tensors) {
    // A copy would be of one size.
    BoundTensor& typical = found.kernel.tensors[static_cast<size_t>(id)];
    typical.fixed = false;
    if (typical.view_of) found.kernel.tensors[static_cast<size_t>(*typical.view_of)].fixed = false;
    const BoundTensor& t = kernel.tensors[static_cast<size_t>(id)];
    int64_t bytes = element_count(t.shape) / size * static_cast<int64_t>(byte_size(t.type));
    row = std::max(row, bytes);
  }
  found.extent.most = kMostBytes / row;
  if (size > found.extent.most) return std::nullopt;
  return found;
}

bool suits_class(const Schedule& schedule, const ClassKernel& kernel) {
  const std::vector<KernelStage>& stages = kernel.kernel.stages;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].attach >= 0) continue;
    const std::vector<Piece>& pieces = stages[s].contraction.pieces;
    for (size_t p = 0; p < pieces.size(); ++p) {
      if (!ClassRules(kernel, s, schedule.stages[s][p], pieces[p]).hold()) return false;
    }
  }
  return true;
}

namespace {

// The class's own choice, or that for its smallest size where it is clearly better at this one:
// what tiles the extent may leave most of its tile empty here. There are only two choices, so that
// the sizes of a class share two codes.
std::optional<Schedule> of_typical_size(const ClassKernel& kernel, const Kernel& actual,
                                        const Target& target) {
  std::vector<Schedule> all = candidates(kernel.kernel, target, kCandidates);
  auto suits = [&](const Schedule& s) { return suits_class(s, kernel); };
  auto first = std::find_if(all.begin(), all.end(), suits);
  if (first == all.end()) return std::nullopt;
  bool good = first == all.begin() || estimate(*first, kernel.kernel, target) <=
                                          kTolerated * estimate(all[0], kernel.kernel, target);
  if (!good) return std::nullopt;
  Kernel smallest = with_size(kernel.kernel, kernel.extent, smallest_size(kernel.size));
  double least = std::numeric_limits<double>::infinity();
  auto best = first;
  for (auto other = first; other != all.end(); ++other) {
    if (!suits(*other) || !illegal(*other, smallest, target).empty()) continue;
    double ns = estimate(*other, smallest, target);
    if (ns >= least) continue;
    least = ns;
    best = other;
  }
  bool better =
      illegal(*best, actual, target).empty() &&
      kClearlyBetter * estimate(*best, actual, target) <= estimate(*first, actual, target);
  return std::move(better ? *best : *first);
}

// The choice for the largest size: threads may pay there and not in the middle of the class.
std::optional<Schedule> of_largest_size(const ClassKernel& kernel, const Kernel& actual,
                                        const Target& target) {
  Kernel largest = with_size(kernel.kernel, kernel.extent, largest_size(kernel.size));
  for (Schedule& s : candidates(largest, target, kCandidates)) {
    bool fits = suits_class(s, kernel) && illegal(s, kernel.kernel, target).empty() &&
                illegal(s, actual, target).empty();
    if (fits) return std::move(s);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Schedule> class_schedule(const ClassKernel& kernel, const Target& target) {
  Kernel actual = with_size(kernel.kernel, kernel.extent, kernel.size);
  double most = kWorthOwnCode * estimate(analytic_schedule(actual, target), actual, target);
  std::optional<Schedule> found = of_typical_size(kernel, actual, target);
  if (!found) return std::nullopt;
  if (estimate(*found, actual, target) <= most) return found;
  found = of_largest_size(kernel, actual, target);
  if (!found || estimate(*found, actual, target) > most) return std::nullopt;
  return found;
}

std::vector<int64_t> short_blocks(int64_t step, int64_t typical) {
  std::vector<int64_t> sizes;
  if (typical <= step) {  // the one block there is
    for (int64_t size = step - 1; size >= 1; --size) sizes.push_back(size);
    return sizes;
  }
  for (int64_t size = step; size > 1;) sizes.push_back(size = ceil_div(size, 2));
  return sizes;
}

}  // namespace tile
