// What the GPU forms of a piece are made of: flattened indices, the operands of a product.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/schedule/kernel.h"
#include "core/schedule/schedule.h"
#include "core/schedule/target.h"

namespace tile::gpu {

// Several unknowns counted as one index, the last fastest.
struct FlatIndex {
  std::vector<size_t> unknowns;
  int64_t count = 1;
  // Extent of the fastest unknown, which neighbours share; 1 without unknowns.
  int64_t fastest = 1;
};
// By decreasing stride: owners in the first output, reductions in the loads.
FlatIndex flat_owners(const Piece& piece, const Kernel& kernel);
FlatIndex flat_reductions(const Piece& piece, const Kernel& kernel);
// Elements between neighbouring values of an unknown in a dense tensor (0: not used; of rational
// forms the nearest integer).
int64_t stride_of(const Access& access, size_t unknown, const Kernel& kernel);

// The body as a product x * y of what depends on the owners m and n. The conditions of the domain
// each belong to one of the two.
struct MatrixForm {
  NodeId x = -1;
  NodeId y = -1;
  FlatIndex batch, m, n, k;
  // Positions in the piece's constraints; those without m and n are in both.
  std::vector<size_t> x_conditions, y_conditions;
  // A point can be skipped whose factors are both staged.
  bool skips = false;
  bool x_along_k = false;  // neighbours in memory are neighbours in k, else in m
  bool y_along_k = false;
};
std::optional<MatrixForm> matrix_form(const Piece& piece, const Contraction& contraction,
                                      const Kernel& kernel);

// Empty when the piece's GPU form is legal; else the first broken rule.
std::string illegal_form(const PieceSchedule& schedule, const Piece& piece, const Contraction& c,
                         const Kernel& kernel, const Target& target);
// Some owner may have no valid point, so that its cell keeps the fill.
bool may_be_empty(const Piece& piece, const Contraction& c);

int64_t shared_bytes(const GpuMatrix& g, DType type);

// Schedules of one piece, best first by the model of this folder; never empty.
std::vector<PieceSchedule> piece_schedules(const Piece& piece, const Contraction& c,
                                           const Kernel& kernel, const Target& target);
// Of whole kernels, as candidates().
std::vector<Schedule> candidate_schedules(const Kernel& kernel, const Target& target, size_t limit);
// Estimated nanoseconds of one piece.
double estimate_piece(const PieceSchedule& s, const Piece& piece, const Contraction& c,
                      const Kernel& kernel, const Target& target);
// A random GPU form, legal or not; nullopt: loops.
std::optional<PieceSchedule> random_form(const Piece& piece, const Contraction& c,
                                         const Kernel& kernel, uint64_t seed);

}  // namespace tile::gpu
