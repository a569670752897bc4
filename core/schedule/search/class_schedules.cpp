// Schedules for kernels that leave an extent to each launch.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ir/analysis/uses.h"
#include "core/kernel/geometry.h"
#include "core/kernel/rows.h"
#include "core/kernel/stream.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/search/dynamic_extent.h"
#include "core/schedule/space/candidates.h"

namespace tile {
namespace {

// A size is small while a block of it may as well be all of it.
constexpr int64_t kSmallSize = 64;
// Schedules that suit a class, looked at for each of some sizes, and among how many they are looked
// for: where the best ones all keep partial sums of an attached stage, few of the first suit.
constexpr size_t kCandidates = 24;
constexpr size_t kRanked = 400;
constexpr size_t kWholeSpace = 20000;
// Of the buffer in which a launch's partial sums wait. It is as large as the largest size of the
// class needs, and that is up to eight times what a size takes.
constexpr int64_t kMostPartialBytes = int64_t{16} << 20;
// Time of short blocks over that of a whole one, for each cell. [race]
constexpr double kShortBlocks = 1.25;

// What a class asks of one piece's schedule, for each of its iterators whose extent is open.
class ClassRules {
 public:
  ClassRules(const ClassKernel& kernel, const Schedule& whole, size_t stage, size_t piece)
      : kernel_(kernel.kernel),
        extent_(kernel.extent),
        stage_(stage),
        shared_(static_cast<std::ptrdiff_t>(whole.shared)),
        s_(whole.stages[stage][piece]),
        piece_(kernel_.stages[stage].contraction.pieces[piece]) {
    largest_ = kernel.span.typical == kernel.span.most;
    small_ = kernel.span.typical <= kSmallSize;
    for (IteratorId u : piece_.box.ids()) {
      std::optional<Growth> growth = extent_.of(StageId(stage), piece, u);
      if (growth) open_.push_back(u);
      if (piece_.is_parallel(u))
        cells_ *= static_cast<double>(growth ? growth->at(extent_.most) : piece_.box[u]);
    }
  }

  bool hold() const {
    if (open_.empty()) return true;
    bool forms = !s_.carried.valid() && partials();
    return forms && std::all_of(open_.begin(), open_.end(), [&](IteratorId u) {
             bool here = piece_.is_parallel(u) ? tile(u) && blocks(u) : terms(u);
             return here && packings(u);
           });
  }

 private:
  static bool any_over(const std::vector<Loop>& loops, IteratorId u) {
    return std::any_of(loops.begin(), loops.end(), [&](const Loop& l) { return l.iterator == u; });
  }

  // Vectors and cells that are written out: their numbers are known in whole and in short blocks.
  bool tile(IteratorId u) const {
    return std::none_of(s_.tile.begin(), s_.tile.end(), [&](const Loop& l) {
      return l.iterator == u && l.binding != Binding::unroll && l.binding != Binding::vector;
    });
  }
  bool blocks(IteratorId u) const {
    int64_t typical = piece_.box[u];
    auto first = std::find_if(s_.outer.begin(), s_.outer.end(),
                              [&](const Loop& l) { return l.iterator == u; });
    // What a tile keeps is as large as the typical extent lets it be.
    if (first == s_.outer.end() || first->step > typical) return false;
    // Rows are visited in blocks by the loops that all stages share.
    if (is_row(u)) return first < s_.outer.begin() + shared_;
    return first->step == 1 || typical <= kSmallSize || typical >= kManyBlocks * first->step;
  }
  bool is_row(IteratorId u) const {
    const KernelStage& stage = kernel_.stages[stage_];
    return row_of(shared_iterators(stage), u).valid();
  }
  // A reduction has a loop of a run-time number of terms, a vector has no more lanes than terms.
  // Products of neighbours, and of tile registers, need whole groups.
  bool terms(IteratorId u) const {
    for (const Loop& l : s_.reduce) {
      if (l.iterator != u) continue;
      bool grouped = l.binding == Binding::dot || l.binding == Binding::matrix;
      if (grouped) return false;
    }
    if (any_over(s_.outer, u)) return true;
    auto first = std::find_if(s_.reduce.begin(), s_.reduce.end(),
                              [&](const Loop& l) { return l.iterator == u; });
    bool vector = first != s_.reduce.end() && first->binding == Binding::vector;
    return first != s_.reduce.end() && (!vector || largest_);
  }
  // A copy is of a block. One that is made before what is left of a block is divided into parts has
  // its cells one by one, as parts begin at any of them.
  bool packings(IteratorId u) const {
    std::ptrdiff_t last = -1, number = 0;
    for (const Loop& l : s_.outer) {
      if (l.iterator == u) last = number;
      ++number;
    }
    return std::all_of(s_.packings.begin(), s_.packings.end(), [&](const Packing& p) {
      if (!any_over(p.order, u)) return true;
      auto level = static_cast<std::ptrdiff_t>(p.level);
      bool whole = std::none_of(s_.outer.begin(), s_.outer.begin() + level,
                                [&](const Loop& l) { return l.iterator == u; });
      bool inside = level > last && (last >= shared_ || level >= shared_);
      bool cells = std::all_of(p.order.begin(), p.order.end(),
                               [&](const Loop& l) { return l.iterator != u || l.step == 1; });
      return !whole && (inside || cells || !piece_.is_parallel(u));
    });
  }
  // Sums of the blocks of a reduction wait in the output itself, in what lives for a block of rows
  // or, of few rows, in a buffer beside both: they have no other way to read weights in order.
  bool partials() const {
    if (has_stream(kernel_)) return true;
    bool blocked = std::any_of(s_.outer.begin(), s_.outer.end(),
                               [&](const Loop& l) { return !piece_.is_parallel(l.iterator); });
    const KernelStage& stage = kernel_.stages[stage_];
    const Contraction& c = stage.contraction;
    auto bytes = static_cast<double>(byte_size(c.accumulator));
    bool few = small_ && cells_ * bytes <= static_cast<double>(kMostPartialBytes);
    if (!blocked || few) return true;
    return std::all_of(c.outputs.begin(), c.outputs.end(), [&](TensorId id) {
      bool stored = contains(kernel_.writes, id) || stage.residence == Residence::row;
      return stored && kernel_.tensors[id].type == c.accumulator;
    });
  }

  const Kernel& kernel_;
  const DynamicExtent& extent_;
  size_t stage_;
  std::ptrdiff_t shared_;  // loops of all stages
  const PieceSchedule& s_;
  const Piece& piece_;
  std::vector<IteratorId> open_;
  double cells_ = 1;      // of the largest size
  bool largest_ = false;  // the typical extent is
  bool small_ = false;    // it is small
};

}  // namespace

bool suits_class(const Schedule& schedule, const ClassKernel& kernel) {
  const IdVector<StageId, KernelStage>& stages = kernel.kernel.stages;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].attach.valid()) continue;
    for (size_t p = 0; p < stages[s].contraction.pieces.size(); ++p) {
      if (!ClassRules(kernel, schedule, s, p).hold()) return false;
    }
  }
  return true;
}

namespace {

// The schedule that serves all sizes of a class, chosen by the class alone: whichever of its sizes
// come, they share one code.
class ClassChoice {
 public:
  ClassChoice(const ClassKernel& kernel, const Target& target) : kernel_(kernel), target_(target) {
    auto [first, typical, most] = kernel.span;
    small_ = typical <= kSmallSize;
    // One is a size with kernels of its own: loops of one value are none.
    int64_t least = std::min(std::max<int64_t>(first, 2), typical);
    for (int64_t size : {least, typical, most}) {
      if (!known(size)) search(size);
    }
    // A little more than a whole number of blocks or of threads.
    for (int64_t size : {least + ceil_div(least, 3), typical / 2 + 1, typical + 1}) {
      if (size <= least || size >= most || known(size)) continue;
      small_ ? search(size) : add(size);
    }
    if (pool_.empty()) search_everywhere();
    for (const Schedule& s : pool_) costs_.push_back(ns_by_size(s));
  }

  // The one whose time is nowhere far from the least and, of many that are about as far at some
  // size, near it at most sizes.
  std::optional<Schedule> best() const {
    size_t chosen = pool_.size();
    double least = kNever;
    for (size_t i = 0; i < pool_.size(); ++i) {
      double worst = 0, logs = 0;
      for (size_t k = 0; k < sizes_.size(); ++k) {
        worst = std::max(worst, over_least(i, k));
        if (small_) logs += std::log(over_least(i, k));
      }
      double both = worst * std::exp(logs / static_cast<double>(sizes_.size()));
      if (both >= least) continue;
      chosen = i;
      least = both;
    }
    return chosen < pool_.size() ? std::optional(pool_[chosen]) : std::nullopt;
  }

 private:
  bool known(int64_t size) const {
    return std::find(looked_at_.begin(), looked_at_.end(), size) != looked_at_.end();
  }
  void add(int64_t size) {
    looked_at_.push_back(size);
    sizes_.push_back(with_size(kernel_.kernel, kernel_.extent, size));
    least_ns_.push_back(kNever);
  }
  // How many times the least time the schedule takes at a size. Less than one of its blocks is done
  // in short ones, which is a little farther from the least than the whole block of another size.
  double over_least(size_t schedule, size_t size) const {
    if (costs_[schedule][size] < kNever) return costs_[schedule][size] / least_ns_[size];
    size_t next = sizes_.size();
    for (size_t k = 0; k < sizes_.size(); ++k) {
      bool larger = looked_at_[k] > looked_at_[size] && costs_[schedule][k] < kNever;
      if (larger && (next == sizes_.size() || looked_at_[k] < looked_at_[next])) next = k;
    }
    if (next == sizes_.size()) return kNever;
    return kShortBlocks * costs_[schedule][next] / least_ns_[next];
  }
  void search(int64_t size) {
    add(size);
    std::vector<Schedule> all = candidates(sizes_.back(), target_, kRanked);
    if (!all.empty()) least_ns_.back() = estimate(all[0], sizes_.back(), target_);
    take(all);
  }
  // Where the best ones of each size suit no class.
  void search_everywhere() { take(whole_space(kernel_.kernel, target_, kWholeSpace)); }
  void take(std::vector<Schedule> all) {
    size_t suit = 0;
    for (size_t i = 0; i < all.size() && suit < kCandidates; ++i) {
      fit(all[i]);
      if (!suits_class(all[i], kernel_) || !legal(all[i])) continue;
      ++suit;
      bool new_one = std::find(pool_.begin(), pool_.end(), all[i]) == pool_.end();
      if (new_one) pool_.push_back(std::move(all[i]));
    }
  }
  // No block is larger than the typical extent, which it then is.
  void fit(Schedule& s) const {
    for (size_t stage = 0; stage < s.stages.size(); ++stage) {
      for (size_t p = 0; p < s.stages[stage].size(); ++p) {
        const Piece& piece = kernel_.kernel.stages[stage].contraction.pieces[p];
        for (Loop& l : s.stages[stage][p].outer) {
          bool open = kernel_.extent.of(StageId(stage), p, l.iterator).has_value();
          if (open) l.step = std::min(l.step, piece.box[l.iterator]);
        }
      }
    }
  }
  bool legal(const Schedule& s) const { return illegal(s, kernel_.kernel, target_).empty(); }

  std::vector<double> ns_by_size(const Schedule& s) {
    std::vector<double> list;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      list.push_back(ns(s, sizes_[i]));
      Schedule halved = small_ ? with_halves(s, sizes_[i]) : s;
      if (!(halved == s)) list.back() = std::min(list.back(), ns(halved, sizes_[i]));
      least_ns_[i] = std::min(least_ns_[i], list.back());
    }
    return list;
  }
  double ns(const Schedule& s, const Kernel& kernel) const {
    return illegal(s, kernel, target_).empty() ? estimate(s, kernel, target_) : kNever;
  }
  // Where the last two blocks are halves of what is left, blocks that are all of about one size
  // take about as long.
  Schedule with_halves(Schedule s, const Kernel& kernel) const {
    for (size_t stage = 0; stage < s.stages.size(); ++stage) {
      const Contraction& c = kernel.stages[stage].contraction;
      for (size_t p = 0; p < s.stages[stage].size(); ++p) {
        PieceSchedule& piece = s.stages[stage][p];
        int64_t vectors = vectors_in_tile(piece, c.pieces[p], c.accumulator, target_);
        for (Loop& l : piece.outer) {
          int64_t size = c.pieces[p].box[l.iterator];
          bool open = kernel_.extent.of(StageId(stage), p, l.iterator).has_value();
          bool small = size > l.step && size % l.step != 0 && 2 * (size % l.step) < l.step;
          bool halved = open && small && halves_last_blocks(l.step, vectors);
          if (halved) l.step = ceil_div(size, ceil_div(size, l.step));
        }
      }
    }
    return s;
  }

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  const ClassKernel& kernel_;
  const Target& target_;
  bool small_ = false;  // each size differs from the others: all looked at have their candidates
  std::vector<int64_t> looked_at_;
  std::vector<Kernel> sizes_;               // the kernel at each
  std::vector<double> least_ns_;            // of any schedule, for each of the sizes
  std::vector<Schedule> pool_;              // those that suit the class
  std::vector<std::vector<double>> costs_;  // [schedule][size] ns
};

}  // namespace

std::optional<Schedule> class_schedule(const ClassKernel& kernel, const Target& target) {
  return ClassChoice(kernel, target).best();
}

}  // namespace tile
