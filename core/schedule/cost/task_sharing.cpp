#include "core/schedule/cost/task_sharing.h"

#include <algorithm>

#include "core/ir/analysis/accesses.h"

namespace tile {
namespace {

// Cells that follow each other in memory belong to one store.
double separate_stores(const Piece& piece) {
  double stores = 1;
  for (size_t u = 0; u < piece.parallel_dims; ++u) stores *= static_cast<double>(piece.box[u]);
  const std::vector<Index>& index = piece.stores[0].index;
  IteratorId row = index.empty() ? IteratorId() : sole_iterator(index.back(), piece);
  return row.valid() ? stores / static_cast<double>(piece.box[row]) : stores;
}

}  // namespace

const Loop* task_loop(const PieceSchedule& s) {
  bool one = !s.outer.empty() && s.outer[0].binding == Binding::parallel &&
             std::none_of(s.outer.begin() + 1, s.outer.end(),
                          [](const Loop& l) { return l.binding == Binding::parallel; });
  return one ? &s.outer[0] : nullptr;
}

double apart_ns(const Contraction& c, size_t piece, const std::vector<PieceSchedule>& schedules,
                const Target& target) {
  auto threads = [](const PieceSchedule& s) {
    return !s.outer.empty() && s.outer[0].binding == Binding::parallel;
  };
  bool apart = target.threads > 1 && (threads(schedules[0]) || threads(schedules[piece])) &&
               !share_tasks(schedules[0], schedules[piece], c.pieces[0], c.pieces[piece]);
  double stores = std::min(separate_stores(c.pieces[0]), separate_stores(c.pieces[piece]));
  return apart ? stores * target.core.line_of_another_ns / target.threads : 0;
}

bool share_tasks(const PieceSchedule& a, const PieceSchedule& b, const Piece& first,
                 const Piece& second) {
  const Loop *mine = task_loop(a), *other = task_loop(b);
  return mine != nullptr && other != nullptr && *mine == *other &&
         first.iterators == second.iterators &&
         first.box[mine->iterator] == second.box[mine->iterator];
}

}  // namespace tile
