// What threads spare and what they cost: how many share a kernel's work, in which tasks, and what
// passes between them.
#pragma once

#include <cstdint>

#include "core/schedule/cost/piece/cost_term.h"
#include "core/schedule/facts/piece_facts.h"

namespace tile {

// Work below this is not worth a thread: it gains little even where helpers watch for it, and loses
// where other threads have the processors at first. Measured by `tile-bench run` on short kernels
// with 2 threads on virtual machines.
constexpr double kChunkNanoseconds = 3500;
// Work that a thread takes at a time, at least: some ten times what taking it costs.
constexpr double kRunNanoseconds = 1500;

// How many threads share `serial` nanoseconds of work in `tasks` parts, and what it takes on them
// (1 task: no parallel loop; `first`: at least that share is one thread's).
double workers_for(double serial, double tasks, const Target& target);
// `into`, if given, is the serial work's term and becomes that of the work on the threads.
double threaded_ns(double serial, double tasks, const Target& target, double first = 0,
                   CostTerm* into = nullptr);
// The least tasks that are worth a thread, of so many that take so long together.
int64_t parallel_grain(double nanoseconds, int64_t tasks);

// Tasks that the leading parallel loops give.
double tasks_of(const PieceSchedule& schedule, const Piece& piece);
// Whether copies outside of all loops are worth several threads: then they are parallel loops of
// their own. Others are made by the calling thread.
bool threads_make_copies(const PieceFacts& facts, const PieceSchedule& schedule);
// Of the work, what the first of the threads' equal runs of tasks is: no other has fewer short
// blocks.
double first_share(const PieceFacts& facts, const PieceSchedule& s, double tasks, double workers);
// Nanoseconds of handing copies over to so many threads, or of making them together.
double copying_overhead_ns(const PieceFacts& facts, const PieceSchedule& s, double workers);
// Nanoseconds of the lines of the results in which the shares of so many threads meet.
double contended_ns(const PieceFacts& facts, const PieceSchedule& s, double workers);

}  // namespace tile
