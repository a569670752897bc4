#include "core/schedule/space/piece/candidate_list.h"

#include <algorithm>
#include <utility>

#include "core/kernel/geometry.h"
#include "core/schedule/cost/piece/packing_cost.h"
#include "core/schedule/cost/piece/thread_cost.h"
#include "core/schedule/legality/legality.h"

namespace tile {
namespace {

constexpr int64_t kTasksPerThread = 4;
constexpr int64_t kMostTasksPerThread = 16;  // of at least so many nanoseconds each
constexpr double kTaskNanoseconds = 500;

}  // namespace

bool CandidateList::is_legal(const PieceSchedule& s) const {
  return illegal_piece(s, f_.piece, f_.contraction, f_.kernel, f_.target).empty();
}

void CandidateList::add(PieceSchedule s) {
  if (is_legal(s)) found_.push_back({model_.nanoseconds(s), std::move(s)});
}

void CandidateList::consider(PieceSchedule s) {
  bind_threads(s);
  add(std::move(s));
}

std::vector<RankedPiece> CandidateList::ranked() {
  if (found_.empty()) {
    PieceSchedule plain = plain_schedule(f_.piece);
    found_.push_back({model_.nanoseconds(plain), plain});
  }
  std::stable_sort(found_.begin(), found_.end(),
                   [](const auto& a, const auto& b) { return a.nanoseconds < b.nanoseconds; });
  return std::move(found_);
}

// Leading parallel dimensions until there are a few tasks for each thread.
void CandidateList::bind_threads(PieceSchedule& s) const {
  // Copies are no reason for threads: what is copied for nothing would seem worth them.
  double serial = f_.target.threads < 2 ? 0 : model_.serial_ns(s) - packing_ns(f_, s);
  if (serial < 2 * kChunkNanoseconds) return;
  size_t most = s.outer.size();
  for (const Packing& p : s.packings) {
    if (p.level > 0) most = std::min(most, p.level);
  }
  auto trips = [&](const Loop& l) { return ceil_div(f_.extent(l.iterator), l.step); };
  int64_t tasks = 1;
  std::vector<IteratorId> seen;
  for (; seen.size() < most; seen.push_back(s.outer[seen.size()].iterator)) {
    const Loop& l = s.outer[seen.size()];
    bool again = std::find(seen.begin(), seen.end(), l.iterator) != seen.end();
    int64_t more = tasks * trips(l);
    int64_t wanted = serial / static_cast<double>(more) < kTaskNanoseconds ? kTasksPerThread
                                                                           : kMostTasksPerThread;
    bool enough = tasks >= wanted * f_.target.threads;
    if (!f_.is_parallel_dim(l.iterator) || l.iterator == s.carried || again || enough) break;
    tasks = more;
  }
  // Loops of one iteration make no tasks, and would hide that pieces have tasks in common.
  auto end = s.outer.begin() + static_cast<std::ptrdiff_t>(seen.size());
  end = std::stable_partition(s.outer.begin(), end, [&](const Loop& l) { return trips(l) > 1; });
  for (auto l = s.outer.begin(); l != end; ++l) l->binding = Binding::parallel;
}

}  // namespace tile
