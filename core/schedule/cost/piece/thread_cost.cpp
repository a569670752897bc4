#include "core/schedule/cost/piece/thread_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/kernel/geometry.h"
#include "core/schedule/cost/piece/packing_cost.h"

namespace tile {
namespace {

// [race] (cost_cycles.h), as a share of a task: what the last ones keep one thread busy alone.
constexpr double kUneven = 0.05;

}  // namespace

double workers_for(double serial, double tasks, const Target& target) {
  double chunks = std::min(tasks, std::floor(serial / kChunkNanoseconds));
  return std::clamp(chunks, 1.0, static_cast<double>(std::max(target.threads, 1)));
}

int64_t parallel_grain(double nanoseconds, int64_t tasks) {
  double each = nanoseconds / static_cast<double>(std::max<int64_t>(tasks, 1));
  double grain = kRunNanoseconds / std::max(each, 1e-3);
  return std::clamp<int64_t>(static_cast<int64_t>(grain), 1, std::max<int64_t>(tasks, 1));
}

double threaded_ns(double serial, double tasks, const Target& target, double first,
                   CostTerm* into) {
  double workers = workers_for(serial, tasks, target);
  if (workers < 2) return serial;
  double rounds = std::ceil(tasks / workers);
  // Processors are not equally fast at all times: a faster one waits for the others' last tasks.
  double share = std::max(rounds / tasks, first) + kUneven / tasks;
  double total = target.parallel_overhead_ns + serial * share;
  if (into == nullptr) return total;
  CostTerm work = std::move(*into);
  *into = {};
  into->name = "on threads";
  into->facts = {{"tasks", tasks}, {"threads", workers}};
  into->add(combine("an even share of the work", Combine::sum, 1 / workers, {std::move(work)}));
  into->add("uneven last tasks", serial * (share - 1 / workers));
  into->add("starting threads", target.parallel_overhead_ns);
  into->ns = total;
  return total;
}

double tasks_of(const PieceSchedule& s, const Piece& piece) {
  double tasks = 1;
  for (const Loop& l : s.outer) {
    if (l.binding != Binding::parallel) break;
    int64_t extent = piece.box[l.iterator];
    tasks *= static_cast<double>(ceil_div(extent, l.step));
  }
  return tasks;
}

bool threads_make_copies(const PieceFacts& facts, const PieceSchedule& s) {
  return packing_ns(facts, s) >= kChunkNanoseconds;
}

// Of the work, what the first of the threads' equal runs of tasks is: no other has fewer short
// blocks.
double first_share(const PieceFacts& facts, const PieceSchedule& s, double tasks, double workers) {
  double run = std::ceil(tasks / workers), inner = tasks, share = 0, part = 1;
  for (const Loop& l : s.outer) {
    if (l.binding != Binding::parallel || run <= 0) break;
    auto extent = static_cast<double>(facts.piece.box[l.iterator]);
    auto step = static_cast<double>(l.step);
    inner /= std::ceil(extent / step);
    double whole = std::floor(run / inner), done = std::min(1.0, whole * step / extent);
    share += part * done;
    part *= std::min(step / extent, 1 - done);
    run -= whole * inner;
  }
  return share;
}

// Copies outside of all loops are parallel loops of their own where they are worth it; of others
// each line is the calling thread's, and goes from cache to cache on every run.
double copying_overhead_ns(const PieceFacts& facts, const PieceSchedule& s, double workers) {
  if (workers < 2) return 0;
  bool threads = threads_make_copies(facts, s);
  double total = 0;
  for (const Packing& p : s.packings) {
    if (p.level > 0 || facts.packed_once(s, p)) continue;
    double bytes = facts.load(p.load).packed_bytes(facts.piece.box);
    total += threads ? facts.target.parallel_overhead_ns
                     : bytes / kCacheLine * facts.target.core.line_handed_over_ns;
  }
  return total;
}

// Lines of the results in which the threads' shares meet: where the outermost parallel loop cuts
// rows inside of lines, each row has one.
double contended_ns(const PieceFacts& facts, const PieceSchedule& s, double workers) {
  auto loop = std::find_if(s.outer.begin(), s.outer.end(), [&](const Loop& l) {
    return l.binding == Binding::parallel && facts.piece.box[l.iterator] > l.step;
  });
  if (loop == s.outer.end() || workers < 2) return 0;
  IteratorId cut = loop->iterator;
  double lines = 0;
  for (size_t i = facts.piece.loads.size(); i < facts.accesses.size(); ++i) {
    const AccessFacts& a = facts.accesses[i];
    int64_t move = std::abs(a.strides[cut]), apart = move * loop->step * a.bytes;
    double rows = 1;
    for (size_t u = 0; u < facts.piece.parallel_dims; ++u) {
      int64_t stride = std::abs(a.strides[u]);
      if (stride <= move) continue;
      rows *= static_cast<double>(facts.piece.box[u]);
      apart = gcd(apart, stride * a.bytes);
    }
    bool meet = move > 0 && apart % static_cast<int64_t>(kCacheLine) != 0;
    if (meet) lines += rows * (workers - 1);
  }
  return lines * facts.target.core.line_of_another_ns;
}

}  // namespace tile
