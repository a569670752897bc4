// What a thread of a GPU reads in one turn of its serial loops: the cells of its register tile and
// the taps that are written out share what their windows overlap in, which the compiler loads once.
#pragma once

#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/target/target.h"

namespace tile::gpu {

// CUDA C++ Programming Guide.
constexpr double kLineBytes = 128;  // of the first cache: what neighbouring threads should cover
constexpr double kWideAccessBytes = 16;  // of one thread's widest access

struct ThreadReads {
  double vector = 1;     // neighbours of a thread that its accesses take together
  double positions = 1;  // cells (vectors of them) times taps of one turn
  double each = 0;       // reads of all positions, each by itself
  double distinct = 0;   // of them, those that name different elements
  // Accesses of the first cache (lines of 128 bytes, or banks that several threads of a warp want)
  // that a warp needs for the reads of a turn, and for its stores at the end.
  double read_lines = 0, stored_lines = 0;
};

// Of a schedule by loops. Windows are taken for overlapping where dense tensors make them.
ThreadReads thread_reads(const PieceSchedule& schedule, const Piece& piece, const Kernel& kernel,
                         const Target& target);

// Whether neighbours along a parallel dimension read elements that both name, other than those that
// all cells along it name. Indices that clamp, wrap or depend on values are not looked into.
bool windows_overlap(IteratorId parallel_dim, const Piece& piece, const Kernel& kernel,
                     const Target& target);

}  // namespace tile::gpu
