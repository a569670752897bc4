#include "core/schedule/common_tasks.h"

#include <algorithm>
#include <optional>

#include "core/schedule/collapse.h"
#include "core/schedule/cost.h"

namespace tile {
namespace {

// Choices looked at, of the first piece and of each other one.
constexpr size_t kFirst = 32;
constexpr size_t kOthers = 6;
// Nanoseconds until a line that another processor's cache holds is here, one store after another.
constexpr double kLineOfAnother = 40;

// The blocks that are the threads' tasks, if one loop alone gives them.
const Loop* task_loop(const PieceSchedule& s) {
  bool one = !s.outer.empty() && s.outer[0].binding == Binding::parallel &&
             std::none_of(s.outer.begin() + 1, s.outer.end(),
                          [](const Loop& l) { return l.binding == Binding::parallel; });
  return one ? &s.outer[0] : nullptr;
}

bool has_blocks(const std::vector<Loop>& loops, int unknown) {
  return std::any_of(loops.begin(), loops.end(),
                     [&](const Loop& l) { return l.unknown == unknown; });
}

// The schedule inside a loop over tasks; what it copies for all of them stays outside.
std::optional<PieceSchedule> inside(const Loop& tasks, const PieceSchedule& s) {
  bool whole = std::all_of(s.packings.begin(), s.packings.end(),
                           [](const Packing& p) { return p.level == 0; });
  if (!whole || s.carried >= 0) return std::nullopt;
  PieceSchedule within = s;
  std::erase_if(within.outer, [&](const Loop& l) {
    return l.unknown == tasks.unknown && (l.step >= tasks.step || tasks.step % l.step != 0);
  });
  for (Loop& l : within.outer) l.binding = Binding::serial;
  within.outer.insert(within.outer.begin(), tasks);
  bool cells = !has_blocks({within.outer.begin() + 1, within.outer.end()}, tasks.unknown) &&
               !has_blocks(within.tile, tasks.unknown) && tasks.step > 1;
  if (cells) within.outer.push_back({tasks.unknown, 1, Binding::serial});
  return within;
}

// Cells that follow each other in memory belong to one store.
double separate_stores(const Piece& piece) {
  double stores = 1;
  for (size_t u = 0; u < piece.owners; ++u) stores *= static_cast<double>(piece.box[u]);
  const std::vector<Index>& index = piece.stores[0].index;
  int row = index.empty() ? -1 : sole_unknown(index.back(), piece.unknowns.size());
  return row < 0 ? stores : stores / static_cast<double>(piece.box[static_cast<size_t>(row)]);
}

}  // namespace

double apart_ns(const Contraction& c, size_t piece, const std::vector<PieceSchedule>& schedules,
                const Target& target) {
  auto threads = [](const PieceSchedule& s) {
    return !s.outer.empty() && s.outer[0].binding == Binding::parallel;
  };
  bool apart = target.threads > 1 && (threads(schedules[0]) || threads(schedules[piece])) &&
               !share_tasks(schedules[0], schedules[piece], c.pieces[0], c.pieces[piece]);
  double stores = std::min(separate_stores(c.pieces[0]), separate_stores(c.pieces[piece]));
  return apart ? stores * kLineOfAnother / target.threads : 0;
}

bool share_tasks(const PieceSchedule& a, const PieceSchedule& b, const Piece& first,
                 const Piece& second) {
  const Loop *mine = task_loop(a), *other = task_loop(b);
  return mine != nullptr && other != nullptr && *mine == *other &&
         first.unknowns == second.unknowns &&
         first.box[static_cast<size_t>(mine->unknown)] ==
             second.box[static_cast<size_t>(mine->unknown)];
}

std::vector<RankedStage> choices_with_common_tasks(
    const Kernel& kernel, size_t stage, const std::vector<std::vector<RankedPiece>>& ranked,
    const Target& target) {
  const Contraction& c = kernel.stages[stage].contraction;
  std::vector<RankedStage> all;
  if (ranked.size() < 2 || target.threads < 2) return all;
  std::vector<PieceModel> models;
  for (const Piece& piece : c.pieces) models.emplace_back(piece, c, kernel, target);
  for (size_t i = 0; i < std::min(kFirst, ranked[0].size()); ++i) {
    const PieceSchedule& first = ranked[0][i].schedule;
    RankedStage joint{ranked[0][i].nanoseconds, {first}};
    for (size_t p = 1; p < ranked.size() && task_loop(first) != nullptr; ++p) {
      std::optional<RankedPiece> best;
      for (size_t j = 0; j < std::min(kOthers, ranked[p].size()); ++j) {
        std::optional<PieceSchedule> s = inside(first.outer[0], ranked[p][j].schedule);
        bool shares = s && share_tasks(first, *s, c.pieces[0], c.pieces[p]) &&
                      illegal_piece(*s, c.pieces[p], c, kernel, target).empty();
        if (!shares) continue;
        double ns = models[p].joining_ns(*s);
        if (!best || ns < best->nanoseconds) best = {ns, std::move(*s)};
      }
      if (!best) break;
      joint.nanoseconds += best->nanoseconds;
      joint.pieces.push_back(std::move(best->schedule));
    }
    if (joint.pieces.size() == ranked.size()) all.push_back(std::move(joint));
  }
  std::stable_sort(all.begin(), all.end(), [](const RankedStage& a, const RankedStage& b) {
    return a.nanoseconds < b.nanoseconds;
  });
  return all;
}

}  // namespace tile
