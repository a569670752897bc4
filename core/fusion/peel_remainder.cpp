#include "core/fusion/peel_remainder.h"

#include <algorithm>
#include <optional>

#include "core/ir/analysis/accesses.h"
#include "core/ir/body.h"
#include "core/kernel/coverage.h"
#include "core/kernel/schedule.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/facts/piece_facts.h"
#include "core/schedule/space/candidates.h"
#include "core/support/choices.h"

namespace tile {
namespace {

// An edge is thin up to this share of the lanes: sums over vectors of the reduction cost one
// vector's addition a cell, and its lanes one by one.
constexpr int64_t kThinShare = 4;

// The parallel dimension along the rows of the result, if there is one that may be divided
// anywhere.
IteratorId row_parallel_dim(const Kernel& kernel) {
  const Contraction& c = kernel.stages[0].contraction;
  bool plain = kernel.stages.size() == 1 && row_loops(kernel) == 0 && c.pieces.size() == 1 &&
               covers_output(c, kernel.tensors);
  if (!plain) return {};
  const Piece& piece = c.pieces[0];
  PieceClass kind = classify(piece, c, kernel.tensors);
  bool product = kind.kind == KernelClass::matrix || kind.kind == KernelClass::windowed;
  if (!product || !piece.constraints.empty() || piece.stores[0].index.empty()) return {};
  IteratorId parallel_dim = sole_iterator(piece.stores[0].index.back(), piece);
  if (!parallel_dim.valid()) return {};
  Role role = kind.roles[parallel_dim];
  bool free =
      (role == Role::m || role == Role::n) && !names_index(piece.body, parallel_dim.index());
  return free ? parallel_dim : IteratorId();
}

// The cells [from, to) along a parallel dimension.
Piece part(const Piece& whole, IteratorId parallel_dim, int64_t from, int64_t to) {
  Piece piece = whole;
  piece.box[parallel_dim] = to - from;
  auto move = [&](Access& a) {
    for (Index& index : a.index) {
      index.affine.constant += index.affine.coefficient(parallel_dim) * Rational(from);
    }
  };
  std::for_each(piece.stores.begin(), piece.stores.end(), move);
  std::for_each(piece.loads.begin(), piece.loads.end(), move);
  return piece;
}

}  // namespace

void peel_remainder(Kernel& kernel, const Target& target) {
  IteratorId parallel_dim = row_parallel_dim(kernel);
  if (!parallel_dim.valid()) return;
  const Contraction& c = kernel.stages[0].contraction;
  const Piece& whole = c.pieces[0];
  int64_t size = whole.box[parallel_dim];
  // Whole vectors of bytes are whole vectors of every type.
  if (size % std::max(1, target.vector_bits / 8) == 0) return;
  int64_t lanes = PieceFacts(whole, c, kernel, target).lanes, edge = size % lanes;
  if (edge == 0 || edge * kThinShare >= lanes || size < lanes) return;
  Kernel divided = kernel;
  divided.stages[0].contraction.pieces = {part(whole, parallel_dim, 0, size - edge),
                                          part(whole, parallel_dim, size - edge, size)};
  bool cheaper = agreed("peel-remainder " + kernel.name, [&] {
    double ns = estimate(analytic_schedule(kernel, target), kernel, target);
    return estimate(analytic_schedule(divided, target), divided, target) < ns;
  });
  if (cheaper) kernel = std::move(divided);
}

}  // namespace tile
