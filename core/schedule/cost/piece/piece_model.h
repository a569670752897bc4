// The analytic model of one piece on a CPU: its parts (the other files of this folder) put
// together.
#pragma once

#include <optional>
#include <utility>

#include "core/schedule/cost/piece/cost_term.h"
#include "core/schedule/facts/piece_facts.h"

namespace tile {

// Functions that are given a term add the parts of the time that they return to it, in nanoseconds;
// the search gives none. Not for several threads: it remembers the schedule asked for last.
class PieceModel {
 public:
  PieceModel(const Piece& piece, const Contraction& c, const Kernel& kernel, const Target& target)
      : facts_(piece, c, kernel, target) {}

  const PieceFacts& facts() const { return facts_; }
  // On one core.
  double serial_ns(const PieceSchedule& schedule) const;
  double serial_ns(const PieceSchedule& schedule, CostTerm* into) const;
  // With the target's threads.
  double nanoseconds(const PieceSchedule& schedule, CostTerm* into = nullptr) const;
  bool threaded(const PieceSchedule& schedule) const;  // the work is worth several
  // The same inside the tasks of another piece that is threaded (shared_parallel_loops.h).
  double joining_ns(const PieceSchedule& schedule, CostTerm* into = nullptr) const;
  // Of the register tiles alone.
  double compute_ns(const PieceSchedule& schedule) const;

 private:
  double fresh_ns(const PieceSchedule& s, CostTerm* into) const;

  PieceFacts facts_;
  // What was asked for last: the space asks whether a schedule is worth threads, then for its time.
  mutable std::optional<std::pair<PieceSchedule, double>> last_;
};

// Estimated nanoseconds of one piece on one core.
double piece_nanoseconds(const Piece& piece, const Contraction& c, const Kernel& kernel,
                         const PieceSchedule& schedule, const Target& target);
// Attached stages: their bodies, their loads and their stores, beside the tile's own work.
double attached_ns(const KernelStage& stage, const Kernel& kernel, const Target& target);

constexpr double kKernelStartNanoseconds = 200;  // `tile-micro`, dispatch of one kernel on a CPU

}  // namespace tile
