#include "core/passes/normalize/domains.h"

#include <algorithm>
#include <optional>

#include "core/ir/analysis/uses.h"
#include "core/lattice/lattice.h"

namespace tile {
namespace {

// Search nodes of one proof; what they leave undecided passes.
constexpr int64_t kProofLimit = 1 << 12;

struct Range {
  Rational lo, hi;
  bool within(int64_t extent) const { return !(lo < Rational(0)) && hi < Rational(extent); }
};

Range over_box(const Affine& form, const std::vector<int64_t>& box) {
  Range r{form.constant, form.constant};
  for (size_t u = 0; u < form.coefficients.size(); ++u) {
    if (form.coefficients[u].is_zero()) continue;
    Rational reach = form.coefficients[u] * Rational(box[u] - 1);
    (reach < Rational(0) ? r.lo : r.hi) += reach;
  }
  return r;
}

// Those that say something of the points, or of the parallel dimensions alone.
using Conditions = std::vector<const Constraint*>;
Conditions conditions_of(const Piece& piece, bool parallel_dims_only) {
  Conditions list;
  for (const Constraint& c : piece.constraints) {
    bool reduces = false;
    for (size_t u = piece.parallel_dims; u < piece.iterators.size(); ++u) {
      reduces = reduces || !c.form.coefficient(u).is_zero();
    }
    if (!reduces || !parallel_dims_only) list.push_back(&c);
  }
  return list;
}

// One condition is on the same form but for a constant, as those that keep an access in range are.
bool says_so(const Affine& form, int64_t extent, const Constraint& c, Range box) {
  Affine rest = form - c.form;
  if (!rest.is_constant()) return false;
  Rational lo = Rational(c.lo) + rest.constant, hi = Rational(c.hi - 1) + rest.constant;
  if (box.lo < lo) box.lo = lo;
  if (hi < box.hi) box.hi = hi;
  return box.within(extent);
}

bool inhabited(const Piece& piece, const Conditions& conditions, const Affine& form, int64_t lo,
               int64_t hi) {
  if (lo >= hi) return false;
  lattice::System system;
  system.iterators = piece.iterators.size();
  for (const Constraint* c : conditions) {
    system.conditions.push_back({c->form, c->lo, c->hi, c->integral});
  }
  for (size_t u = 0; u < piece.box.size(); ++u) {
    system.conditions.push_back({iterator_affine(u), 0, piece.box[u], true});
  }
  system.conditions.push_back({form, lo, hi, true});
  return lattice::emptiness(system, kProofLimit) == lattice::Emptiness::inhabited;
}

bool in_range(const Piece& piece, const Conditions& conditions, const Affine& form,
              int64_t extent) {
  if (!form.is_integral()) return false;
  Range box = over_box(form, piece.box);
  if (box.within(extent)) return true;
  bool said = std::any_of(conditions.begin(), conditions.end(),
                          [&](const Constraint* c) { return says_so(form, extent, *c, box); });
  if (said) return true;
  bool below = inhabited(piece, conditions, form, box.lo.num(), std::min<int64_t>(0, box.hi.num()));
  return !below &&
         !inhabited(piece, conditions, form, std::max(extent, box.lo.num()), box.hi.num() + 1);
}

void verify_access(const Piece& piece, const Conditions& conditions, const Access& access,
                   const BoundTensor& tensor, const char* how) {
  if (access.index.size() != tensor.shape.size()) {
    throw InternalError("domain: a " + std::string(how) + " of " + tensor.name +
                        " with another rank");
  }
  for (size_t d = 0; d < access.index.size(); ++d) {
    const Index& index = access.index[d];
    if (index.value >= 0 || index.boundary != Boundary::in_range) continue;
    if (!in_range(piece, conditions, index.affine, tensor.shape[d])) {
      throw InternalError("domain: a " + std::string(how) + " outside of " + tensor.name +
                          ", dimension " + std::to_string(d));
    }
  }
}

}  // namespace

void verify_accesses(const Contraction& c, const BoundTensors& tensors) {
  for (const Piece& piece : c.pieces) {
    bool none = std::any_of(piece.box.begin(), piece.box.end(), [](int64_t n) { return n <= 0; });
    if (none) continue;
    // What a cell is stored for is its parallel point, whether or not that has a point.
    Conditions points = conditions_of(piece, false), parallel_dims = conditions_of(piece, true);
    for (const Access& a : piece.stores) {
      verify_access(piece, parallel_dims, a, tensors[a.tensor], "store");
    }
    for (const Access& a : piece.loads) {
      verify_access(piece, points, a, tensors[a.tensor], "load");
    }
  }
}

void verify_accesses(const BoundProgram& program) {
  for (const BoundStatement& statement : program.statements) {
    const Contraction* c = std::get_if<Contraction>(&statement);
    if (c != nullptr && c->normalized) verify_accesses(*c, program.tensors);
  }
}

DomainSize domain_size(const Contraction& c) {
  DomainSize size;
  for (const Piece& piece : c.pieces) {
    size.points += point_count(piece);
    size.conditions += piece.constraints.size();
  }
  return size;
}

}  // namespace tile
