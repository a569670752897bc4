#include "core/ir/analysis/accesses.h"

#include <algorithm>

namespace tile {

bool moves_with(const Access& access, size_t iterator) {
  return std::any_of(access.index.begin(), access.index.end(), [&](const Index& index) {
    return !index.affine.coefficient(iterator).is_zero();
  });
}
bool may_move_with(const Access& access, size_t iterator) {
  return moves_with(access, iterator) ||
         std::any_of(access.index.begin(), access.index.end(),
                     [](const Index& index) { return index.value >= 0; });
}

bool is_plain_index(const Index& index) {
  return index.value < 0 && index.boundary == Boundary::in_range;
}
bool is_constant_index(const Index& index) {
  return is_plain_index(index) && index.affine.is_constant();
}

IteratorId sole_iterator(const Index& index, size_t iterators) {
  if (!is_plain_index(index) || !index.affine.constant.is_zero()) return {};
  IteratorId sole;
  for (size_t u = 0; u < index.affine.coefficients.size(); ++u) {
    const Rational& factor = index.affine.coefficients[u];
    if (factor.is_zero()) continue;
    if (sole.valid() || u >= iterators || factor != Rational(1)) return {};
    sole = IteratorId(u);
  }
  return sole;
}

bool is_constrained(const Piece& piece, size_t iterator) {
  return std::any_of(piece.constraints.begin(), piece.constraints.end(),
                     [&](const Constraint& c) { return !c.form.coefficient(iterator).is_zero(); });
}
bool names_index(const Body& body, size_t iterator) {
  bool named = false;
  visit_nodes(body, [&](const Node& n) {
    named = named || (n.kind == NodeKind::index && n.slot == iterator);
  });
  return named;
}

void keep_iterators(Access& access, size_t count) {
  for (Index& index : access.index) {
    auto& coefficients = index.affine.coefficients;
    if (coefficients.size() > count) coefficients.resize(count);
  }
}

}  // namespace tile
