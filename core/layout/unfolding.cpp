#include "core/layout/unfolding.h"

namespace tile::layout {

void join_dimensions(Piece& piece, size_t load, size_t d, size_t u, int64_t inner,
                     FactorCopies& copies) {
  Access& a = piece.loads[load];
  const BoundTensor t = copies.tensor(a.tensor);
  const Affine before = a.index[d].affine;
  // A form f with u times 1 becomes (inner * f)(u = 0) + u.
  const Affine joined = (before - iterator_affine(u)) * Rational(inner) + iterator_affine(u);
  for (Constraint& k : piece.constraints) {
    Affine rest = k.form - before;
    if (!rest.is_constant()) continue;
    k.lo = (k.lo - rest.constant.num()) * inner;
    k.hi = (k.hi - rest.constant.num()) * inner;
    k.form = joined;
  }
  Shape shape = t.shape;
  shape[d] *= inner;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1);
  a.tensor = copies.add(t.name + "_joined", t.type, shape, t.view_of.value_or(a.tensor));
  a.index[d].affine = joined;
  a.index.erase(a.index.begin() + static_cast<std::ptrdiff_t>(d) + 1);
}

namespace {

// Whether the condition says that the form is inside of a dimension.
bool keeps_inside(const Constraint& c, const Affine& form, int64_t extent) {
  Affine rest = c.form - form;
  if (!rest.is_constant() || !rest.is_integral()) return false;
  return c.lo == rest.constant.num() && c.hi - rest.constant.num() == extent;
}

}  // namespace

Access read_for_copy(const Piece& piece, const Access& from, const Shape& shape,
                     const std::vector<Affine>& place, std::optional<size_t> padded,
                     std::set<size_t>& kept) {
  Access read = from;
  for (size_t d = 0; d < read.index.size(); ++d) {
    const Affine& form = from.index[d].affine;
    bool outside = padded && !form.coefficient(*padded).is_zero();
    for (size_t k = 0; k < piece.constraints.size(); ++k) {
      if (!keeps_inside(piece.constraints[k], form, shape[d])) continue;
      kept.insert(k);
      outside = true;
    }
    if (outside) read.index[d].boundary = Boundary::constant;
    read.index[d].affine = substitute(form, place);
  }
  return read;
}

}  // namespace tile::layout
