#include "core/schedule/legality/legality.h"

#include <algorithm>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/coverage.h"
#include "core/kernel/forms/amx_tiles.h"
#include "core/kernel/forms/dot_products.h"
#include "core/kernel/forms/gpu_forms.h"
#include "core/kernel/forms/long_tile.h"
#include "core/kernel/forms/prepacking.h"
#include "core/kernel/forms/scan.h"
#include "core/kernel/forms/tensor_core_gemm.h"
#include "core/kernel/forms/window.h"
#include "core/kernel/geometry.h"
#include "core/kernel/rows.h"
#include "core/kernel/stream.h"
#include "core/schedule/legality/tensor_core_gemm_legality.h"

namespace tile {
namespace {

// The widest vector loop: what one register holds of bytes, four times.
constexpr int64_t kMostLanes = 256;
constexpr int64_t kMostTileStatements = 512;

class PieceRules {
 public:
  PieceRules(const PieceSchedule& schedule, const Piece& piece, const Contraction& c,
             const Kernel& kernel, const Target& target, size_t shared)
      : s_(schedule), piece_(piece), c_(c), kernel_(kernel), target_(target), shared_(shared) {}

  std::string broken() const {
    if (s_.has_gpu_form()) {
      return gpu::illegal_form(s_, piece_, c_, kernel_, target_);
    }
    for (auto rule :
         {&PieceRules::sections, &PieceRules::carry, &PieceRules::steps, &PieceRules::bindings,
          &PieceRules::matrices, &PieceRules::parallel, &PieceRules::blocked,
          &PieceRules::registers, &PieceRules::packings, &PieceRules::dots}) {
      std::string text = (this->*rule)();
      if (!text.empty()) return text;
    }
    return {};
  }

 private:
  bool parallel_dim(IteratorId u) const { return piece_.is_parallel(u); }
  std::vector<Loop> all_loops() const {
    std::vector<Loop> all = s_.outer;
    all.insert(all.end(), s_.reduce.begin(), s_.reduce.end());
    all.insert(all.end(), s_.tile.begin(), s_.tile.end());
    return all;
  }
  bool constrained_reduction() const {
    for (const Constraint& c : piece_.constraints) {
      for (size_t u = piece_.parallel_dims; u < piece_.box.size(); ++u) {
        if (!c.form.coefficient(u).is_zero()) return true;
      }
    }
    return false;
  }

  std::string sections() const {
    for (const Loop& l : all_loops()) {
      if (!piece_.box.contains(l.iterator)) {
        return "a loop over no iterator";
      }
    }
    for (const Loop& l : s_.reduce) {
      if (parallel_dim(l.iterator)) return "a parallel dimension among the reduce loops";
    }
    for (const Loop& l : s_.tile) {
      if (!parallel_dim(l.iterator)) return "a reduction in the register tile";
    }
    return {};
  }

  std::string carry() const {
    if (!s_.carried.valid()) return {};
    std::optional<size_t> along = carried_parallel_dim(piece_, c_, target_);
    if (!along || s_.carried != IteratorId(*along)) return "nothing to carry";
    if (!s_.reduce.empty() || !s_.packings.empty()) return "a carried reduction with loops";
    return carried_lanes();
  }
  // Vectors along the carried parallel dimension: the last of the outer loops, for blocks of them,
  // and the last ones of the tile.
  std::string carried_lanes() const {
    auto over = [&](const Loop& l) { return l.iterator == s_.carried; };
    auto outer = std::count_if(s_.outer.begin(), s_.outer.end(), over);
    auto tile = std::count_if(s_.tile.begin(), s_.tile.end(), over);
    if (outer == 0 && tile == 0) return {};
    if (is_chained(s_)) {
      if (std::string text = chained(); !text.empty()) return text;
      --outer;
    }
    bool block = outer == 1 && over(s_.outer.back()) && s_.outer.back().binding == Binding::serial;
    bool last = tile > 0 && static_cast<size_t>(tile) == carried_tile_loops(s_) &&
                s_.tile.back().binding == Binding::vector && !joins_lanes(s_);
    if (!block || !last || is_gpu(target_)) return "a loop over the carried parallel dimension";
    std::optional<WindowForm> window = window_form(piece_, c_);
    if (window && window->fold.valid()) return "lanes along a window of run-time length";
    bool few = s_.outer.back().step > piece_.box[s_.carried];
    return window && few ? "lanes along a window of fewer cells" : "";
  }
  // Threads that take turns along the one row there is: every cell has one value more than the one
  // before.
  std::string chained() const {
    std::optional<ScanForm> form = scan_form(piece_, c_);
    if (!form || shared_ > 0) return "turns along no prefix or suffix";
    int64_t cells = piece_.box[form->parallel_dim];
    for (size_t u = 0; u < piece_.parallel_dims; ++u) {
      if (u != form->parallel_dim && piece_.box[u] != 1) return "turns along several rows";
    }
    bool each = form->offset == 0 && piece_.box[form->reduction] == cells;
    return each && s_.outer.front().step < cells ? "" : "turns along a shifted or short row";
  }
  bool is_carried(size_t u) const {
    return s_.carried.valid() && (IteratorId(u) == s_.carried || u >= piece_.parallel_dims);
  }

  // Blocks of the shared loops have sizes of their own, whose remainder the loop behind them knows
  // if no other outer loop follows.
  bool divides_freely(size_t i) const {
    if (shared_ == 0 || i < shared_) return false;
    auto same = [&](const Loop& l) { return l.iterator == all_loops()[i].iterator; };
    auto from = s_.outer.begin() + static_cast<std::ptrdiff_t>(shared_);
    auto own = std::count_if(from, s_.outer.end(), same);
    return i < s_.outer.size() ? own == 1 : own == 0;
  }

  // A prefix's or suffix's tile may be longer than the registers, if its lanes are no neighbours
  // along the carried parallel dimension.
  bool may_be_long() const {
    return s_.carried.valid() && carried_tile_loops(s_) == 0 && shared_ == 0 && !is_gpu(target_) &&
           scan_form(piece_, c_).has_value();
  }

  // Decreasing to 1, each dividing the one before.
  std::string steps() const {
    std::vector<Loop> all = all_loops();
    for (size_t u = 0; u < piece_.box.size(); ++u) {
      int64_t before = 0;
      size_t last = 0;
      for (size_t i = 0; i < all.size(); ++i) {
        const Loop& l = all[i];
        if (l.iterator != IteratorId(u)) continue;
        if (l.step < 1) return "a step below 1";
        bool free = last < shared_ && divides_freely(i);
        if (before != 0 && (l.step >= before || (before % l.step != 0 && !free))) {
          return "steps of one iterator that do not divide each other downwards";
        }
        before = l.step;
        last = i;
      }
      if (before != 1 && !is_carried(u)) return "an iterator whose last step is not 1";
    }
    return {};
  }

  std::string bindings() const {
    std::string text;
    auto check = [&](const std::vector<Loop>& loops, bool outer, bool tile) {
      for (size_t i = 0; i < loops.size(); ++i) {
        Binding b = loops[i].binding;
        bool last = i + 1 == loops.size();
        if (b == Binding::dot && (outer || tile || !last || loops[i].step != 1)) {
          text = "a dot that is not the reduction's last loop";
        }
        bool joined = tile && i + 2 == loops.size() && loops.back().binding == Binding::vector;
        if (b == Binding::vector && ((!last && !joined) || loops[i].step != 1)) {
          text = "a vector loop not last";
        }
        if (outer && (b == Binding::vector || b == Binding::unroll)) text = "a bound outer loop";
        if (!outer && b == Binding::parallel) text = "a parallel loop inside";
        bool open = i == 0 && !last && may_be_long();
        if (tile && b == Binding::serial && !open) text = "a serial loop in the register tile";
      }
    };
    check(s_.outer, true, false);
    check(s_.reduce, false, false);
    check(s_.tile, false, true);
    auto is_vector = [](const std::vector<Loop>& l) {
      return !l.empty() && l.back().binding == Binding::vector;
    };
    if (is_vector(s_.reduce) && is_vector(s_.tile)) text = "two vector loops";
    return text.empty() ? joined_lanes() : text;
  }
  // Pairs of lanes: all values of the last iterator for some of the other's.
  std::string joined_lanes() const {
    if (!joins_lanes(s_)) return {};
    if (is_gpu(target_)) return "joined lanes on a GPU";
    IteratorId last = s_.tile.back().iterator;
    if (s_.tile[s_.tile.size() - 2].iterator == last) return "an iterator joined with itself";
    for (const Loop& l : s_.outer) {
      bool cut = l.iterator == last && l.step < piece_.box[last];
      if (cut) return "joined lanes over a part of the last iterator";
    }
    auto loops = std::count_if(s_.tile.begin(), s_.tile.end(),
                               [&](const Loop& l) { return l.iterator == last; });
    return loops > 1 ? "joined lanes over a part of the last iterator" : "";
  }

  std::string matrices() const { return illegal_tiles(s_, piece_, c_, kernel_.tensors, target_); }

  std::string parallel() const {
    bool ended = false;
    std::vector<IteratorId> seen;
    for (const Loop& l : s_.outer) {
      if (l.binding != Binding::parallel) {
        ended = true;
        continue;
      }
      if (ended) return "a parallel loop below a serial one";
      if (!parallel_dim(l.iterator)) return "a parallel reduction";
      if (std::find(seen.begin(), seen.end(), l.iterator) != seen.end()) {
        return "two parallel loops over one iterator";
      }
      seen.push_back(l.iterator);
    }
    return {};
  }

  std::string blocked() const {
    bool any = std::any_of(s_.outer.begin(), s_.outer.end(),
                           [&](const Loop& l) { return !parallel_dim(l.iterator); });
    if (!any) return {};
    if (c_.aggregation == Aggregation::assign) return "a blocked reduction of an assignment";
    // Whether any point was there is known within a block only. Blocks of a streamed axis test
    // their points.
    bool zero_if_empty = c_.aggregation == Aggregation::sum && !c_.fill;
    if (constrained_reduction() && !has_stream(kernel_) && !zero_if_empty &&
        !surely_nonempty(piece_)) {
      return "a blocked reduction whose conditions may leave no point";
    }
    for (size_t u = piece_.parallel_dims; u < piece_.box.size(); ++u) {
      if (piece_.box[u] < 1) return "a blocked reduction without points";
    }
    return {};
  }

  // Registers for what the flipped neighbours of a dot add to the sums.
  int64_t correction_vectors() const {
    if (dot_group(s_) == 1) return 0;
    std::optional<DotForm> form = form_of(s_, piece_, c_, kernel_.tensors);
    if (!form || !form->flipped) return 0;
    std::vector<int64_t> shape = tile_shape(s_, piece_);
    int64_t native = std::max(1, target_.vector_bits / bit_width(c_.accumulator)), count = 1;
    for (size_t i = 0; i < shape.size(); ++i) {
      const Loop& l = s_.tile[i];
      if (!moves_with(piece_.loads[form->other()], l.iterator)) continue;
      count *= l.binding == Binding::vector ? ceil_div(shape[i], native) : shape[i];
    }
    return count;
  }

  std::string registers() const {
    int64_t statements = 1;
    std::vector<int64_t> shape = tile_shape(s_, piece_);
    for (size_t i = 0; i < shape.size(); ++i) {
      bool vector = s_.tile[i].binding == Binding::vector;
      if (s_.tile[i].binding == Binding::matrix) continue;
      if (vector && shape[i] > kMostLanes) return "a vector loop that is too long";
      bool loop = i == 0 && is_long_tile(s_);
      if (!vector && !loop) statements = checked_mul(statements, shape[i]);
      if (statements > kMostTileStatements) return "a register tile with too many statements";
    }
    if (lane_count(s_.reduce, piece_) > kMostLanes) return "a vector loop that is too long";
    bool reduces = piece_.parallel_dims < piece_.box.size();
    size_t loop = 0;
    int64_t vectors = vectors_in_tile(s_, piece_, c_.accumulator, target_);
    vectors *= accumulator_copies(s_, piece_, c_, target_, loop);
    // Beside them two, or one and the vectors that corrections are sums of.
    int64_t corrections = correction_vectors();
    int64_t beside = corrections > 0 ? 2 * corrections + 1 : 2;
    bool held = reduces && vectors > 1 && !is_long_tile(s_) && !uses_tiles(s_);
    if (held && vectors + beside > target_.vector_registers) {
      return "a register tile larger than the registers";
    }
    for (size_t i = 0; i < s_.reduce.size(); ++i) {
      if (s_.reduce[i].binding != Binding::unroll) continue;
      statements = checked_mul(statements, unrolled_count(i));
    }
    return statements > kMostTileStatements ? "too much unrolled" : "";
  }
  int64_t unrolled_count(size_t i) const {
    int64_t block = piece_.box[s_.reduce[i].iterator];
    for (const std::vector<Loop>* loops : {&s_.outer, &s_.reduce}) {
      size_t end = loops == &s_.reduce ? i : loops->size();
      for (size_t j = 0; j < end; ++j) {
        if ((*loops)[j].iterator == s_.reduce[i].iterator)
          block = std::min(block, (*loops)[j].step);
      }
    }
    return ceil_div(block, s_.reduce[i].step);
  }

  // The last loop over packed neighbours.
  std::string dots() const {
    if (s_.reduce.empty() || s_.reduce.back().binding != Binding::dot) return {};
    std::optional<DotForm> form = form_of(s_, piece_, c_, kernel_.tensors);
    IteratorId u = s_.reduce.back().iterator;
    if (!form || !packs_along(*form, piece_, u) || is_gpu(target_)) return "a dot of other terms";
    if (form->flipped && joins_lanes(s_)) return "flipped neighbours in lanes of two iterators";
    for (size_t load : {form->x, form->y}) {
      auto packing = std::find_if(s_.packings.begin(), s_.packings.end(),
                                  [&](const Packing& p) { return p.load == load; });
      if (packing == s_.packings.end()) {
        if (piece_.box[u] % form->group != 0) return "neighbours that memory does not have";
        continue;
      }
      size_t n = packed_loops(*packing, s_);
      if (n == 0 || n == packing->order.size()) return "a packing without a dot's neighbours";
      bool grouped = std::any_of(packing->order.begin(), packing->order.end(), [&](const Loop& l) {
        return l.iterator == s_.reduce.back().iterator && l.step == form->group;
      });
      bool contiguous = packing->order[n - 1].step == 1 ||
                        packing->order[n - 1].iterator == s_.reduce.back().iterator;
      if (!grouped || !contiguous) return "a packing without contiguous groups";
    }
    return {};
  }

  std::string packings() const {
    std::vector<size_t> packed;
    size_t parallel_loops = 0;
    for (const Loop& l : s_.outer) parallel_loops += l.binding == Binding::parallel ? 1 : 0;
    for (const Packing& p : s_.packings) {
      if (p.load >= piece_.loads.size()) return "no such load";
      if (std::find(packed.begin(), packed.end(), p.load) != packed.end()) {
        return "a load packed twice";
      }
      packed.push_back(p.load);
      size_t level = p.level;
      if (level > s_.outer.size()) return "a packing outside the outer loops";
      if (level != 0 && level < parallel_loops) return "a packing between parallel loops";
      std::string text = packing(p);
      if (!text.empty()) return text;
    }
    return {};
  }
  std::string packing(const Packing& p) const {
    const Access& access = piece_.loads[p.load];
    // Of what is packed once blocks of a reduction are wanted where others have conditions.
    bool fixed = is_fixed(kernel_.tensors, access.tensor);
    auto conditioned = [&](size_t u) {
      return fixed ? is_constrained(piece_, u) : constrained_reduction();
    };
    for (const Index& index : access.index) {
      if (index.value >= 0) return "a packed gather";
    }
    std::vector<Loop> inside(s_.outer.begin() + static_cast<std::ptrdiff_t>(p.level),
                             s_.outer.end());
    inside.insert(inside.end(), s_.reduce.begin(), s_.reduce.end());
    inside.insert(inside.end(), s_.tile.begin(), s_.tile.end());
    for (size_t u = 0; u < piece_.box.size(); ++u) {
      bool used = std::any_of(access.index.begin(), access.index.end(), [&](const Index& index) {
        return !index.affine.coefficient(u).is_zero();
      });
      std::vector<int64_t> loops, entries;
      for (const Loop& l : inside) {
        if (l.iterator == IteratorId(u)) loops.push_back(l.step);
      }
      for (const Loop& l : p.order) {
        if (l.iterator == IteratorId(u)) entries.push_back(l.step);
      }
      if ((used && !loops.empty()) != !entries.empty()) {
        return "a packing whose dimensions are not the access's";
      }
      for (size_t i = 0; i < entries.size(); ++i) {
        if (std::find(loops.begin(), loops.end(), entries[i]) == loops.end()) {
          return "a packed dimension that is no loop";
        }
        if (i > 0 && entries[i] >= entries[i - 1]) return "packed steps that do not decrease";
      }
      if (!entries.empty() && entries.back() != 1) return "a packed dimension without step 1";
      bool neighbours = dot_group(s_) > 1 && IteratorId(u) == s_.reduce.back().iterator;
      if (entries.size() > 1 && !parallel_dim(IteratorId(u)) && !neighbours && conditioned(u)) {
        return "a packed reduction with conditions of its own and blocks";
      }
    }
    if (p.order.empty() || p.order.back().step != 1) return "a packing without contiguous elements";
    return {};
  }

  const PieceSchedule& s_;
  const Piece& piece_;
  const Contraction& c_;
  const Kernel& kernel_;
  const Target& target_;
  size_t shared_;
};

}  // namespace

std::string illegal_piece(const PieceSchedule& schedule, const Piece& piece, const Contraction& c,
                          const Kernel& kernel, const Target& target, size_t shared) {
  return PieceRules(schedule, piece, c, kernel, target, shared).broken();
}

std::string illegal(const Schedule& schedule, const Kernel& kernel, const Target& target) {
  if (schedule.gpu_lines) return gpu::illegal_lines(schedule, kernel, target);
  if (schedule.gpu_stream) return gpu::illegal_stream(schedule, kernel, target);
  if (is_gpu(target) && has_stream(kernel)) return "a streamed axis among loops on a GPU";
  if (schedule.stages.size() != kernel.stages.size()) return "another number of stages";
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    const KernelStage& stage = kernel.stages[s];
    size_t wanted = stage.attach.valid() ? 0 : stage.contraction.pieces.size();
    if (schedule.stages[s].size() != wanted) return "another number of pieces";
    for (size_t p = 0; p < wanted; ++p) {
      if (schedule.stages[s][p].form<TensorCoreGemm>()) continue;
      std::string text = illegal_piece(schedule.stages[s][p], stage.contraction.pieces[p],
                                       stage.contraction, kernel, target, schedule.shared);
      if (!text.empty()) return text;
    }
  }
  std::string shared = broken_shared(schedule, kernel);
  return shared.empty() ? tensor_cores::broken(schedule, kernel, target) : shared;
}

}  // namespace tile
