#include "core/kernel/forms/scan.h"

#include <algorithm>

#include "core/ir/analysis/accesses.h"

namespace tile {
namespace {

// The one parallel dimension in the condition, with the reduction.
std::optional<size_t> coupled_parallel_dim(const Affine& form, size_t reduction) {
  std::optional<size_t> parallel_dim;
  for (size_t u = 0; u < form.coefficients.size(); ++u) {
    if (form.coefficients[u].is_zero() || u == reduction) continue;
    if (parallel_dim) return std::nullopt;
    parallel_dim = u;
  }
  return parallel_dim;
}

}  // namespace

std::optional<ScanForm> scan_form(const Piece& piece, const Contraction& contraction) {
  bool one = contraction.pieces.size() == 1 && piece.constraints.size() == 1 &&
             piece.box.size() == piece.parallel_dims + 1 && !contraction.fill &&
             contraction.aggregation != Aggregation::assign;
  if (!one) return std::nullopt;
  const Constraint& c = piece.constraints[0];
  ScanForm s;
  s.reduction = piece.parallel_dims;
  std::optional<size_t> parallel_dim = coupled_parallel_dim(c.form, s.reduction);
  if (!parallel_dim || *parallel_dim >= piece.parallel_dims || !c.form.is_integral())
    return std::nullopt;
  s.parallel_dim = *parallel_dim;
  Rational i = c.form.coefficient(s.parallel_dim), r = c.form.coefficient(s.reduction);
  bool opposite = i + r == Rational(0) && (i == Rational(1) || r == Rational(1));
  if (!opposite) return std::nullopt;
  // lo <= i - r + k < hi, or the same with i and r exchanged.
  int64_t k = c.form.constant.num();
  int64_t reach_i = piece.box[s.parallel_dim] - 1, reach_r = piece.box[s.reduction] - 1;
  bool forward = i == Rational(1);
  bool upper_implied = (forward ? reach_i : reach_r) + k < c.hi;
  bool lower_implied = (forward ? -reach_r : -reach_i) + k >= c.lo;
  if (upper_implied == lower_implied) return std::nullopt;
  // What remains is one bound on i - r (forward) or r - i.
  if (forward) {
    s.suffix = !upper_implied;
    s.offset = upper_implied ? c.lo - k : -(c.hi - 1 - k);
  } else {
    s.suffix = upper_implied;
    s.offset = upper_implied ? c.lo - k : -(c.hi - 1 - k);
  }
  bool empty_cells = s.suffix ? reach_i + s.offset > reach_r : s.offset > 0;
  if (empty_cells && contraction.aggregation != Aggregation::sum) return std::nullopt;
  for (const Access& a : piece.loads) {
    if (may_move_with(a, s.parallel_dim)) return std::nullopt;
  }
  if (names_index(piece.body, s.parallel_dim)) return std::nullopt;
  return s;
}

}  // namespace tile
