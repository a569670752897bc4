// Sums of integers that leave their type: `S[] = +(A[i])` of bytes is a byte (rule 4.8).
#include <algorithm>
#include <limits>

#include "core/ir/analysis/integer_range.h"
#include "core/ir/analysis/value_range.h"
#include "core/lattice/lattice.h"
#include "core/passes/normalize/substitution.h"
#include "core/warnings/checks.h"

namespace tile::warnings {

lattice::Bounds bounds_of_indices(const Checked& c) {
  const Piece& piece = c.contraction.pieces[0];
  lattice::System system = system_of(piece);
  auto add = [&](const Access& access) {
    const Shape& shape = c.tensor(access.tensor).shape;
    for (size_t d = 0; d < access.index.size(); ++d) {
      const Index& index = access.index[d];
      if (index.value >= 0 || index.boundary != Boundary::in_range) continue;
      system.conditions.push_back({index.affine, 0, shape[d], true});
    }
  };
  for (const Access& access : piece.stores) add(access);
  for (const Access& access : piece.loads) add(access);
  return lattice::bounds(system);
}

namespace {

// An upper bound of the points of one cell: the ranges of the indices that the cell does not name.
double points_of_cell(const Checked& c, const Piece& piece) {
  lattice::Bounds bounds = bounds_of_indices(c);
  if (bounds.empty || bounds.unbounded) return 0;
  double points = 1;
  for (size_t i = 0; i < piece.iterators.size(); ++i) {
    bool named =
        std::any_of(c.symbolic.out_index.begin(), c.symbolic.out_index.end(), [&](const Expr& e) {
          return e.kind() == ExprKind::variable && e.name() == piece.iterators[i];
        });
    if (!named) points *= static_cast<double>(bounds.box[i].hi - bounds.box[i].lo + 1);
  }
  return points;
}

}  // namespace

// Of a term that may have any value of 32 bits nothing is known, and of 64 bits neither: that such
// sums can wrap is no news.
void check_overflow(const Checked& c, Warnings& list) {
  DType type = c.result().type;
  if (c.contraction.aggregation != Aggregation::sum || !is_integer(type)) return;
  const Piece& piece = c.contraction.pieces[0];
  NodeId term = piece.body.results[0];
  // The term itself, before it is converted to the type that is summed in.
  while (piece.body[term].kind == NodeKind::operation && piece.body[term].op == Op::cast &&
         is_integer(piece.body[piece.body[term].args[0]].type)) {
    term = piece.body[term].args[0];
  }
  if (!is_integer(piece.body[term].type)) return;
  ValueRange range = value_range(piece.body, term);
  IntegerRange all = range_of_type(type);
  bool any_value = range.lo <= std::numeric_limits<int32_t>::min() ||
                   range.hi >= std::numeric_limits<int32_t>::max();
  double points = points_of_cell(c, piece);
  bool fits = static_cast<double>(range.hi) * points <= static_cast<double>(all.hi) &&
              static_cast<double>(range.lo) * points >= static_cast<double>(all.lo);
  if (any_value || points < 2 || fits) return;
  std::string name(to_string(type));
  warn(list, Stage::bind, "overflow", c.symbolic.out_span,
       "a sum of up to " + std::to_string(static_cast<int64_t>(std::min(points, 9e15))) +
           " terms between " + std::to_string(range.lo) + " and " + std::to_string(range.hi) +
           " can leave " + name + ", the type of " + c.name + ", and wraps around",
       "convert the terms first: as_int(…, 32) or as_int(…, 64)");
}

}  // namespace tile::warnings
