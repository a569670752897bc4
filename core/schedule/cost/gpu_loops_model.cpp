// The model of GPU schedules by loops: a thread for each cell, for neighbours that one access
// holds, or for a register tile of cells whose windows overlap.
#include <algorithm>
#include <cmath>

#include "core/schedule/cost/gpu_cost_parts.h"
#include "core/schedule/facts/thread_reads.h"

namespace tile::gpu {
namespace {

// [H200]: gpu_model.h.
constexpr double kFewTerms = 32;       // [H200] of a sum that its accesses bound
constexpr double kCacheBeside = 0.05;  // of the first cache's time, what nothing hides
constexpr double kWrittenOut = 8;      // positions of a thread whose reads are under way
// [H200] Windows, of depthwise convolutions and pooling: fitted to the schedules that three studies
// measured (bench/studies), whose parts add up. Shares of instructions, memory and first cache;
// nanoseconds of threads that wait, and the share of a read that they wait for; at borders threads
// test one tap after the other.
constexpr double kWindowIssue = 0.35, kWindowMemory = 0.86, kWindowCache = 0.32;
constexpr double kWindowWait = 530, kReadShare = 0.125, kBoundedReads = 2;
constexpr double kBorderTap = 290, kBorderRead = 60, kWindowStart = 800;

// The part of the register tiles that are at an end of a dimension whose conditions name taps:
// their threads test each point, one tap after the other.
double border_share(const PieceSchedule& s, const Piece& piece) {
  double inside = 1;
  for (const Loop& l : s.tile) {
    bool at_border =
        std::any_of(piece.constraints.begin(), piece.constraints.end(), [&](const Constraint& c) {
          bool tap = false;
          for (size_t u = piece.parallel_dims; u < piece.box.size(); ++u) {
            tap = tap || !c.form.coefficient(u).is_zero();
          }
          return tap && !c.form.coefficient(l.iterator.index()).is_zero();
        });
    if (!at_border) continue;
    double tiles = static_cast<double>(piece.box[l.iterator]);
    for (const Loop& o : s.outer) {
      if (o.iterator == l.iterator) tiles /= static_cast<double>(o.step);
    }
    inside *= std::max(0.0, 1 - 2 / tiles);
  }
  return 1 - inside;
}

// Whether a condition names a tap.
bool has_borders(const Piece& piece) {
  return std::any_of(piece.constraints.begin(), piece.constraints.end(), [&](const Constraint& c) {
    for (size_t u = piece.parallel_dims; u < piece.box.size(); ++u) {
      if (!c.form.coefficient(u).is_zero()) return true;
    }
    return false;
  });
}

// What sums of windows take, one after the other.
struct WindowParts {
  double memory = 0, instructions = 0, cached = 0, waits = 0, borders = 0;

  double ns(double launch, CostTerm* into) const {
    double start = launch + kWindowStart;
    if (into != nullptr) {
      into->add("memory", memory);
      into->add("instructions", instructions);
      into->add("the first cache", cached);
      into->add("waves of threads that wait", waits);
      into->add_if("taps tested at borders", borders);
      into->add("launch", start);
    }
    return memory + instructions + cached + waits + borders + start;
  }
};

// Nanoseconds of what all warps ask of the first cache, a line for each clock of a multiprocessor.
double first_cache_ns(const ThreadReads& reads, double threads, double turns, const Target& t) {
  double lines = turns * reads.read_lines + reads.stored_lines;
  double clocks = std::ceil(threads / t.gpu.warp_size) * lines / t.gpu.multiprocessors;
  return clocks / t.gpu.gigahertz;
}

}  // namespace

bool sums_windows(const Piece& piece) {
  return std::any_of(piece.loads.begin(), piece.loads.end(), [&](const Access& a) {
    return std::any_of(a.index.begin(), a.index.end(), [&](const Index& index) {
      bool cell = false, tap = false;
      for (size_t u = 0; u < piece.box.size(); ++u) {
        if (index.affine.coefficient(u).is_zero()) continue;
        (u < piece.parallel_dims ? cell : tap) = true;
      }
      return cell && tap;
    });
  });
}

double loops_ns(const PieceSchedule& s, const Piece& piece, const Kernel& kernel,
                const Target& target, CostTerm* into) {
  Work work = work_of(piece);
  double cells_each = 1;
  for (const Loop& l : s.outer) cells_each *= static_cast<double>(l.step);
  if (s.carried.valid()) {
    cells_each *= static_cast<double>(piece.box[s.carried]);
    work.terms = 1;
    work.points = work.cells;
  }
  double threads = std::max(1.0, work.cells / cells_each);
  FlatIndex parallel_dims = flat_parallel_dims(piece, kernel);
  // A thread's neighbours share its accesses, which bound sums of few terms; of many terms each is
  // computed.
  ThreadReads reads = thread_reads(s, piece, kernel, target);
  double together = work.terms > kFewTerms ? 1 : reads.vector;
  // So do windows that overlap, whose reads are all under way together.
  work.operations -= kLoadInstructions * (reads.each - reads.distinct) / reads.positions;
  double each = cells_each * work.terms / together;
  double waits = each / (kInFlight * std::min(reads.positions, kWrittenOut));
  double border = reads.positions > 1 ? border_share(s, piece) : 0;
  if (reads.positions > 1) {
    waits = (1 - border) * waits + border * std::max(waits, work.terms);
  }
  CostTerm bounds;
  Issue issue = issue_ns({threads, each, waits}, work, target, into == nullptr ? nullptr : &bounds);
  if (sums_windows(piece)) {
    double turns = cells_each * work.terms / (reads.vector * reads.positions);
    WindowParts parts;
    parts.memory = kWindowMemory * dram_ns(traffic(piece, kernel, parallel_dims, work), target);
    parts.instructions = kWindowIssue * issue.instructions;
    parts.cached = kWindowCache * first_cache_ns(reads, threads, turns, target);
    bool bounded = reads.positions == 1 && has_borders(piece);
    double all = 1.0 * target.gpu.multiprocessors * target.gpu.threads_per_multiprocessor;
    parts.waits = std::max(1.0, threads / all) * kWindowWait *
                  (1 + kReadShare * (bounded ? kBoundedReads * each : waits));
    if (border > 0) parts.borders = kBorderTap * work.terms + kBorderRead * each;
    return parts.ns(target.gpu.launch_ns, into);
  }
  double size = piece.stores.empty() ? 4 : element_bytes(piece.stores[0], kernel);
  double together_bytes = reads.vector * size;
  double turns = cells_each * work.terms / reads.vector;
  if (reads.positions > 1) {
    together_bytes =
        std::max(together_bytes, std::min(kWideAccessBytes, reads.positions * together_bytes));
    turns /= reads.positions;
  }
  double narrow = 1 + 0.1 * std::abs(std::log2(together_bytes / kWideAccessBytes)) / 2;
  double memory = narrow * dram_ns(traffic(piece, kernel, parallel_dims, work), target);
  double cached = first_cache_ns(reads, threads, turns, target);
  if (into != nullptr) {
    bounds.add("memory", memory);
    bounds.add("the first cache", cached);
    add_bounds(*into, std::move(bounds), 1);
    into->add("the first cache, beside", kCacheBeside * cached);
    into->add("launch", target.gpu.launch_ns);
  }
  return std::max({issue.slowest(), memory, cached}) + kCacheBeside * cached + target.gpu.launch_ns;
}

}  // namespace tile::gpu
