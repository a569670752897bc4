#include <algorithm>

#include "core/passes/normalize/normalize.h"
#include "core/passes/normalize/plain_piece.h"
#include "core/passes/normalize/substitution.h"

namespace tile {
namespace {

// Whether the form lies in [0, size) for all parallel points, by the box or by a condition on
// parallel dimensions alone.
bool stays_inside(const Piece& piece, const Affine& form, int64_t size) {
  Rational lo = form.constant, hi = form.constant;
  for (size_t i = 0; i < form.coefficients.size(); ++i) {
    Rational reach = form.coefficients[i] * Rational(piece.box[i] - 1);
    (reach < Rational(0) ? lo : hi) += reach;
  }
  if (!(lo < Rational(0)) && hi < Rational(size)) return true;
  return std::any_of(piece.constraints.begin(), piece.constraints.end(), [&](const Constraint& c) {
    return c.form == form && c.lo >= 0 && c.hi <= size;
  });
}

// A cell's parallel point may have no point of the reduction. Conditions on reduction iterators can
// keep the points inside the output and so make a condition on the parallel dimensions redundant; a
// loop over parallel dimensions still needs it.
void keep_stores_inside(const BoundProgram& program, Piece& piece) {
  for (const Access& store : piece.stores) {
    const Shape& shape = program.tensors[store.tensor].shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      const Affine& form = store.index[d].affine;
      if (!stays_inside(piece, form, shape[d])) {
        piece.constraints.push_back({form, 0, shape[d], true});
      }
    }
  }
}

void append_classes(const BoundProgram& program, Piece& piece, std::vector<Piece>& out) {
  std::optional<PlainDomain> plain = plain_domain(piece);
  if (plain && plain->parallel_dims == piece.parallel_dims) {
    piece.box = IterationBox(std::move(plain->box));
    piece.constraints.clear();
    keep_stores_inside(program, piece);
    out.push_back(std::move(piece));
    return;
  }
  std::string of = "split " + program.tensors[piece.stores[0].tensor].name;
  for (const lattice::Piece& part :
       lattice::split(system_of(piece), piece.parallel_dims, lattice::kClassLimit, of)) {
    Piece result = substituted(piece, part.substitution);
    result.parallel_dims = part.parallel_dims;
    result.constraints = constraints_of(part.system);
    for (const lattice::Interval& range : part.box) result.box.push_back(range.hi + 1);
    keep_stores_inside(program, result);
    out.push_back(std::move(result));
  }
}

}  // namespace

void defract(BoundProgram& program, const Target&) {
  for (BoundStatement& statement : program.statements) {
    Contraction* c = std::get_if<Contraction>(&statement);
    if (c == nullptr || c->normalized) continue;
    std::vector<Piece> pieces;
    for (Piece& piece : c->pieces) append_classes(program, piece, pieces);
    c->pieces = std::move(pieces);
    c->normalized = true;
  }
}

}  // namespace tile
