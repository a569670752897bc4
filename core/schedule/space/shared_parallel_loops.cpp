#include "core/schedule/space/shared_parallel_loops.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/kernel/geometry.h"
#include "core/schedule/cost/piece/piece_model.h"
#include "core/schedule/cost/task_sharing.h"
#include "core/schedule/legality/legality.h"

namespace tile {
namespace {

// Choices looked at, of the first piece and of each other one, and tasks for each thread.
constexpr size_t kFirst = 8;
constexpr size_t kOthers = 6;
constexpr int64_t kMostTasks = 16;

bool has_blocks(const std::vector<Loop>& loops, IteratorId iterator) {
  return std::any_of(loops.begin(), loops.end(),
                     [&](const Loop& l) { return l.iterator == iterator; });
}

// The schedule inside a loop over tasks; what it copies for all of them stays outside.
std::optional<PieceSchedule> inside(const Loop& tasks, const PieceSchedule& s) {
  bool whole = std::all_of(s.packings.begin(), s.packings.end(),
                           [](const Packing& p) { return p.level == 0; });
  if (!whole || s.carried.valid()) return std::nullopt;
  PieceSchedule within = s;
  std::erase_if(within.outer, [&](const Loop& l) {
    return l.iterator == tasks.iterator && (l.step >= tasks.step || tasks.step % l.step != 0);
  });
  for (Loop& l : within.outer) l.binding = Binding::serial;
  within.outer.insert(within.outer.begin(), tasks);
  bool cells = !has_blocks({within.outer.begin() + 1, within.outer.end()}, tasks.iterator) &&
               !has_blocks(within.tile, tasks.iterator) && tasks.step > 1;
  if (cells) within.outer.push_back({tasks.iterator, 1, Binding::serial});
  return within;
}

// Cells of a tile along a parallel dimension.
int64_t unit_of(const PieceSchedule& s, IteratorId parallel_dim) {
  int64_t unit = 1;
  for (const Loop& l : s.outer) {
    if (l.iterator == parallel_dim) unit = l.step;
  }
  return unit;
}

// The same with the rows of a task innermost: what they share passes by once for all of them.
std::optional<PieceSchedule> rows_innermost(const PieceSchedule& s) {
  IteratorId rows = s.outer[0].iterator;
  if (s.outer.size() < 3 || s.outer[1].iterator != rows || s.outer.back().iterator == rows) {
    return std::nullopt;
  }
  PieceSchedule other = s;
  std::rotate(other.outer.begin() + 1, other.outer.begin() + 2, other.outer.end());
  return other;
}

class SharedParallelLoops {
 public:
  SharedParallelLoops(const Kernel& kernel, size_t stage,
                      const std::vector<std::vector<RankedPiece>>& ranked, const Target& target)
      : kernel_(kernel), c_(kernel.stages[stage].contraction), ranked_(ranked), target_(target) {
    for (const Piece& piece : c_.pieces) models_.emplace_back(piece, c_, kernel, target);
  }

  std::vector<RankedStage> run() {
    for (size_t i = 0; i < std::min(kFirst, ranked_[0].size()); ++i) {
      const PieceSchedule& first = ranked_[0][i].schedule;
      if (task_loop(first) != nullptr) consider(first);
      for (size_t u = 0; u < c_.pieces[0].parallel_dims; ++u) divide(first, IteratorId(u));
    }
    std::stable_sort(all_.begin(), all_.end(), [](const RankedStage& a, const RankedStage& b) {
      return a.nanoseconds < b.nanoseconds;
    });
    return std::move(all_);
  }

 private:
  bool legal(const PieceSchedule& s, size_t piece) const {
    return illegal_piece(s, c_.pieces[piece], c_, kernel_, target_).empty();
  }
  // Blocks of one parallel dimension instead of the choice's own tasks.
  void divide(const PieceSchedule& first, IteratorId parallel_dim) {
    int64_t size = c_.pieces[0].box[parallel_dim], unit = unit_of(first, parallel_dim);
    int64_t before = 0;
    for (int64_t tasks = target_.threads; tasks <= kMostTasks * target_.threads; tasks *= 2) {
      int64_t step = ceil_div(ceil_div(size, tasks), unit) * unit;
      if (step == before || step >= size) continue;
      before = step;
      std::optional<PieceSchedule> s = inside({parallel_dim, step, Binding::parallel}, first);
      for (; s; s = rows_innermost(*s)) {
        if (legal(*s, 0)) consider(*s);
      }
    }
  }
  // The other pieces' best choices in the tasks of the first.
  void consider(const PieceSchedule& first) {
    if (!models_[0].threaded(first)) return;
    RankedStage joint{models_[0].nanoseconds(first), {first}};
    for (size_t p = 1; p < ranked_.size(); ++p) {
      std::optional<RankedPiece> best;
      for (size_t j = 0; j < std::min(kOthers, ranked_[p].size()); ++j) {
        std::optional<PieceSchedule> s = inside(first.outer[0], ranked_[p][j].schedule);
        bool shares = s && share_tasks(first, *s, c_.pieces[0], c_.pieces[p]) && legal(*s, p);
        if (!shares) continue;
        double ns = models_[p].joining_ns(*s);
        if (!best || ns < best->nanoseconds) best = {ns, std::move(*s)};
      }
      if (!best) return;
      joint.nanoseconds += best->nanoseconds;
      joint.pieces.push_back(std::move(best->schedule));
    }
    all_.push_back(std::move(joint));
  }

  const Kernel& kernel_;
  const Contraction& c_;
  const std::vector<std::vector<RankedPiece>>& ranked_;
  const Target& target_;
  std::vector<PieceModel> models_;
  std::vector<RankedStage> all_;
};

}  // namespace

std::vector<RankedStage> choices_with_shared_parallel_loops(
    const Kernel& kernel, size_t stage, const std::vector<std::vector<RankedPiece>>& ranked,
    const Target& target) {
  if (ranked.size() < 2 || target.threads < 2) return {};
  return SharedParallelLoops(kernel, stage, ranked, target).run();
}

}  // namespace tile
