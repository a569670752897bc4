#include "core/schedule/search/dynamic_extent.h"

#include <algorithm>
#include <limits>

#include "core/ir/analysis/uses.h"
#include "core/kernel/collapse.h"
#include "core/kernel/coverage.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/facts/piece_facts.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"

namespace tile {
namespace {

// Sizes in (8^k, 8^(k + 1)] are one class: 64 batches span at most three.
constexpr int64_t kClassRatio = 8;
// A size is small while a block of it may as well be all of it.
constexpr int64_t kSmallSize = kClassRatio * kClassRatio;
// Blocks of a large size: so many that what is left of the last one does not show.
constexpr int64_t kManyBlocks = 16;
// Schedules that suit a class, looked at for each of some sizes, and among how many they are looked
// for: where the best ones all keep partial sums of an attached stage, few of the first suit.
constexpr size_t kCandidates = 24;
constexpr size_t kRanked = 400;
// Times the cost of two schedules at the size that they serve worst, from which one alone is too
// dear; and times that of the best for the size alone, from which each size has its own.
constexpr double kOneServes = 1.15;
constexpr double kWorthOwnCode = 1.5;
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

// Gathers the tensors whose first dimension the walking iterators run over.
class Finder {
 public:
  explicit Finder(const Kernel& kernel) : kernel_(kernel) {}

  std::optional<DynamicExtent> run() {
    bool pieces = std::none_of(kernel_.stages.begin(), kernel_.stages.end(),
                               [](const auto& s) { return s.contraction.pieces.empty(); });
    if (row_loops(kernel_) > 0 || !pieces) return std::nullopt;
    const Piece& first = kernel_.stages[0].contraction.pieces[0];
    IteratorId walker = walking_iterator(first);
    if (!walker.valid()) return std::nullopt;
    size_ = first.box[walker];
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
  const Shape& shape(TensorId id) const { return kernel_.tensors[id].shape; }

  bool fits(const KernelStage& stage) {
    const Contraction& c = stage.contraction;
    bool whole = stage.attach.valid() || covers_output(c, kernel_.tensors);
    return whole && !c.fill &&
           std::all_of(c.pieces.begin(), c.pieces.end(), [&](const Piece& p) { return fits(p); });
  }
  bool fits(const Piece& piece) {
    IteratorId walker = walking_iterator(piece);
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
  // The access has the walker in dimension 0, alone and over all of it, or nowhere.
  bool walks(const Access& a, IteratorId walker, const Piece& piece) {
    for (size_t d = 0; d < a.index.size(); ++d) {
      bool here = !a.index[d].affine.coefficient(walker).is_zero();
      if (!here) continue;
      bool plain = d == 0 && sole_iterator(a.index[0], piece.iterators.size()) == walker &&
                   shape(a.tensor)[0] == size_;
      if (!plain) return false;
      if (!contains(found_.tensors, a.tensor)) found_.tensors.push_back(a.tensor);
    }
    return true;
  }
  bool every_access_walks(const Piece& piece) const {
    IteratorId walker = walking_iterator(piece);
    auto walked = [&](const Access& a) {
      return !contains(found_.tensors, a.tensor) ||
             sole_iterator(a.index[0], piece.iterators.size()) == walker;
    };
    return std::all_of(piece.stores.begin(), piece.stores.end(), walked) &&
           std::all_of(piece.loads.begin(), piece.loads.end(), walked);
  }

  const Kernel& kernel_;
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

Kernel with_size(const Kernel& kernel, const DynamicExtent& extent, int64_t size) {
  Kernel other = kernel;
  for (TensorId id : extent.tensors) other.tensors.change()[id].shape[0] = size;
  for (KernelStage& stage : other.stages) {
    for (Piece& piece : stage.contraction.pieces) {
      piece.box[walking_iterator(piece)] = size;
    }
  }
  return other;
}

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

class ClassRules {
 public:
  ClassRules(const ClassKernel& kernel, size_t stage, const PieceSchedule& schedule,
             const Piece& piece)
      : kernel_(kernel.kernel), stage_(stage), s_(schedule), piece_(piece) {
    walker_ = walking_iterator(piece);
    typical_ = piece.box[walker_];
  }

  bool hold() const {
    return !s_.carried.valid() && tile() && blocks() && packings() && partials();
  }

 private:
  bool over(const Loop& l) const { return l.iterator == walker_; }

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
      bool whole =
          std::none_of(s_.outer.begin(), s_.outer.begin() + static_cast<std::ptrdiff_t>(p.level),
                       [&](const Loop& l) { return over(l); });
      bool packed =
          std::any_of(p.order.begin(), p.order.end(), [&](const Loop& l) { return over(l); });
      return !(whole && packed);
    });
  }
  // Sums of the blocks of a reduction wait in the output itself.
  bool partials() const {
    bool blocked = std::any_of(s_.outer.begin(), s_.outer.end(),
                               [&](const Loop& l) { return !piece_.is_parallel(l.iterator); });
    const Contraction& c = kernel_.stages[stage_].contraction;
    return !blocked || std::all_of(c.outputs.begin(), c.outputs.end(), [&](TensorId id) {
      return contains(kernel_.writes, id) && kernel_.tensors[id].type == c.accumulator;
    });
  }

  const Kernel& kernel_;
  size_t stage_;
  const PieceSchedule& s_;
  const Piece& piece_;
  IteratorId walker_;
  int64_t typical_ = 0;
};

}  // namespace

IteratorId walking_iterator(const Piece& piece) {
  const Access& store = piece.stores[0];
  if (store.index.empty()) return {};
  return sole_iterator(store.index[0], piece.iterators.size());
}

std::optional<ClassKernel> for_class_of_sizes(const Kernel& kernel, const Target& target) {
  if (is_gpu(target)) return std::nullopt;
  std::optional<DynamicExtent> extent = Finder(kernel).run();
  if (!extent) return std::nullopt;
  const Piece& piece = kernel.stages[0].contraction.pieces[0];
  int64_t size = piece.box[walking_iterator(piece)];
  ClassKernel found{with_size(kernel, *extent, typical_size(size)), std::move(*extent), size};
  forget_others(found.kernel);
  if (!is_heavy(with_size(kernel, found.extent, largest_size(size)), target)) return std::nullopt;
  int64_t row = 1;
  for (TensorId id : found.extent.tensors) {
    // A copy would be of one size.
    BoundTensors& tensors = found.kernel.tensors.change();
    BoundTensor& typical = tensors[id];
    typical.fixed = false;
    if (typical.view_of) tensors[*typical.view_of].fixed = false;
    const BoundTensor& t = kernel.tensors[id];
    int64_t bytes = element_count(t.shape) / size * static_cast<int64_t>(byte_size(t.type));
    row = std::max(row, bytes);
  }
  found.extent.most = kMostBytes / row;
  if (size > found.extent.most) return std::nullopt;
  return found;
}

bool suits_class(const Schedule& schedule, const ClassKernel& kernel) {
  const IdVector<StageId, KernelStage>& stages = kernel.kernel.stages;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].attach.valid()) continue;
    const std::vector<Piece>& pieces = stages[s].contraction.pieces;
    for (size_t p = 0; p < pieces.size(); ++p) {
      if (!ClassRules(kernel, s, schedule.stages[s][p], pieces[p]).hold()) return false;
    }
  }
  return true;
}

namespace {

// At most two schedules that serve every size of a class, chosen by the class alone: whichever of
// its sizes come, they share two codes.
class ClassChoice {
 public:
  ClassChoice(const ClassKernel& kernel, const Target& target) : kernel_(kernel), target_(target) {
    int64_t least = smallest_size(kernel.size), most = largest_size(kernel.size);
    int64_t typical = typical_size(kernel.size);
    for (int64_t size : {least, typical, most}) search(size);
    // A little more than a whole number of blocks or of threads.
    for (int64_t size : {least + ceil_div(least, 3), typical / 2 + 1, typical + 1}) {
      if (least < size && size < most) add(size);
    }
    for (size_t i = 0; i < pool_.size(); ++i) costs_.push_back(ratios(pool_[i]));
  }

  std::vector<Schedule> schedules() const {
    Choice one = best([](size_t i, size_t j) { return i == j; });
    Choice two = best([](size_t i, size_t j) { return i < j; });
    bool alone = one.worst <= kOneServes * two.worst;
    if ((alone ? one : two).worst > kWorthOwnCode) return {};
    if (alone) return {pool_[one.first]};
    return {pool_[two.first], pool_[two.second]};
  }

 private:
  void add(int64_t size) {
    sizes_.push_back(with_size(kernel_.kernel, kernel_.extent, size));
    least_ns_.push_back(kNever);
  }
  void search(int64_t size) {
    add(size);
    std::vector<Schedule> all = candidates(sizes_.back(), target_, kRanked);
    if (!all.empty()) least_ns_.back() = estimate(all[0], sizes_.back(), target_);
    size_t suit = 0;
    for (size_t i = 0; i < all.size() && suit < kCandidates; ++i) {
      if (!suits_class(all[i], kernel_) || !legal(all[i])) continue;
      ++suit;
      bool new_one = std::find(pool_.begin(), pool_.end(), all[i]) == pool_.end();
      if (new_one) pool_.push_back(std::move(all[i]));
    }
  }
  bool legal(const Schedule& s) const { return illegal(s, kernel_.kernel, target_).empty(); }

  // Its cost at each of the sizes relative to the best there.
  std::vector<double> ratios(const Schedule& s) {
    std::vector<double> list;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      list.push_back(illegal(s, sizes_[i], target_).empty() ? estimate(s, sizes_[i], target_)
                                                            : kNever);
      least_ns_[i] = std::min(least_ns_[i], list.back());
    }
    return list;
  }

  // Two places in the pool; alike: one schedule.
  struct Choice {
    size_t first = 0, second = 0;
    double worst = 0;  // its cost at some size, relative to the least there
  };
  template <class Accepts>
  Choice best(Accepts accepts) const {
    Choice found{0, 0, kNever};
    for (size_t i = 0; i < pool_.size(); ++i) {
      for (size_t j = i; j < pool_.size(); ++j) {
        if (!accepts(i, j)) continue;
        double worst = 0;
        for (size_t k = 0; k < sizes_.size(); ++k) {
          worst = std::max(worst, std::min(costs_[i][k], costs_[j][k]) / least_ns_[k]);
        }
        if (worst < found.worst) found = {i, j, worst};
      }
    }
    return found;
  }

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  const ClassKernel& kernel_;
  const Target& target_;
  std::vector<Kernel> sizes_;
  std::vector<double> least_ns_;            // of any schedule, for each of the sizes
  std::vector<Schedule> pool_;              // those that suit the class
  std::vector<std::vector<double>> costs_;  // [schedule][size] ns
};

}  // namespace

std::vector<Schedule> class_schedules(const ClassKernel& kernel, const Target& target) {
  return ClassChoice(kernel, target).schedules();
}

const Schedule& best_for_size(const std::vector<Schedule>& choices, const ClassKernel& kernel,
                              const Target& target) {
  internal_check(!choices.empty(), "best_for_size: no schedule");
  Kernel actual = with_size(kernel.kernel, kernel.extent, kernel.size);
  auto ns = [&](const Schedule& s) {
    return illegal(s, actual, target).empty() ? estimate(s, actual, target)
                                              : std::numeric_limits<double>::infinity();
  };
  bool second = choices.size() > 1 && ns(choices[1]) < ns(choices[0]);
  return choices[second ? 1 : 0];
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
