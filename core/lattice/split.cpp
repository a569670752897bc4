#include <algorithm>

#include "core/lattice/residues.h"
#include "core/support/choices.h"
#include "core/support/control.h"
#include "core/support/diagnostic.h"

namespace tile::lattice {
namespace {

constexpr int64_t tighten_limit = 1 << 10;  // search nodes spent on one end of one interval

// Whether some point has the iterator within `range`; a search that gives up says yes.
bool may_reach(Rows& rows, size_t iterator, Range range) {
  std::swap(rows.box[iterator], range);
  bool reached = search(rows, tighten_limit) != Emptiness::empty;
  std::swap(rows.box[iterator], range);
  return reached;
}

// The least (sign 1) or greatest (sign -1) value that the iterator takes on integer points.
int64_t exact_end(Rows& rows, size_t iterator, int sign) {
  const Range range = rows.box[iterator];
  int64_t near = sign > 0 ? range.lo : range.hi, far = sign > 0 ? range.hi : range.lo;
  if (range.fixed() || may_reach(rows, iterator, {near, near})) return near;
  near = checked_add(near, sign);
  while (near != far) {  // some point lies between near and far, inclusive
    int64_t middle = near + sign * ((sign * (far - near)) / 2);
    Range half = sign > 0 ? Range{near, middle} : Range{middle, near};
    if (may_reach(rows, iterator, half)) {
      far = middle;
    } else {
      near = middle + sign;
    }
  }
  return near;
}

// Makes the box of relaxed rows exact on the integer points; false when there is none.
bool tighten_to_integers(Rows& rows) {
  for (const Component& component : components(rows)) {
    Rows own = part(rows, component);
    if (search(own, tighten_limit) == Emptiness::empty) return false;
    for (size_t i = 0; i < own.iterators; ++i) {
      own.box[i].lo = exact_end(own, i, 1);
      own.box[i].hi = exact_end(own, i, -1);
      rows.box[component.iterators[i]] = own.box[i];
    }
  }
  return true;
}

// The box of rows without points of their own.
std::optional<std::vector<Range>> exact_ranges(Rows rows) {
  if (!relax(rows) || !tighten_to_integers(rows)) return std::nullopt;
  return std::move(rows.box);
}

// Makes the box exact on the integer points; false when there is none. A range that is exact as
// the conditions on its iterator alone state it stays so at all sizes of a class: where a sequence
// is shorter than a window, the conditions say which of its taps count.
bool make_exact(Rows& rows, const std::string& of) {
  if (rows.empty) return false;
  bool known = false;
  std::optional<std::vector<Range>> exact;
  auto find_exact = [&] {
    if (!known) exact = exact_ranges(rows);
    known = true;
    return exact.has_value();
  };
  std::vector<Range> box = rows.box;
  for (size_t i = 0; i < box.size(); ++i) {
    auto same = [&] {
      return find_exact() && (*exact)[i].lo == rows.box[i].lo && (*exact)[i].hi == rows.box[i].hi;
    };
    if (box[i].bounded() && agreed(of + " range " + std::to_string(i), same)) continue;
    if (!find_exact()) return false;
    box[i] = (*exact)[i];
    internal_check(box[i].bounded(), "split: every iterator is bounded");
  }
  rows.box = std::move(box);
  return true;
}

// Whether some point of the other rows violates row `at` on either side.
bool needed(const Rows& rows, size_t at) {
  Row row = rows.rows[at];
  Rows others = rows;
  others.rows.erase(others.rows.begin() + std::ptrdiff_t(at));
  Rows below = others;
  add_row(below, row.a, no_lower, Wide(row.range.lo) - 1);
  if (search(below, tighten_limit) != Emptiness::empty) return true;
  add_row(others, row.a, Wide(row.range.hi) + 1, no_upper);
  return search(others, tighten_limit) != Emptiness::empty;
}

// By rows: whether it is more than the box and the other rows together say.
std::vector<bool> needed_rows(const Rows& rows) {
  std::vector<bool> stays;
  for (const Row& row : rows.rows) stays.push_back(!implied(row, rows.box));
  for (const Component& component : components(rows)) {
    if (component.rows.size() < 2) continue;  // the box alone decides
    Rows own = part(rows, component);
    for (size_t at = own.rows.size(); at-- > 0;) {
      if (needed(own, at)) continue;
      own.rows.erase(own.rows.begin() + std::ptrdiff_t(at));
      stays[component.rows[at]] = false;
    }
  }
  return stays;
}

// Keeps the rows that are needed, or that are at another size of the class.
void drop_redundant(Rows& rows, const std::string& of) {
  std::optional<std::vector<bool>> here;
  std::vector<Row> kept;
  for (size_t at = 0; at < rows.rows.size(); ++at) {
    auto needed_here = [&] {
      if (!here) here = needed_rows(rows);
      return bool((*here)[at]);
    };
    bool stays = agreed(of + " condition " + std::to_string(at), needed_here);
    // What another size does without may be needed at this one.
    if (!stays && !implied(rows.rows[at], rows.box)) stays = needed_here();
    if (stays) kept.push_back(rows.rows[at]);
  }
  rows.rows = std::move(kept);
}

Sublattice class_change(const Residues& residues, const Vector& residue, size_t iterators) {
  size_t parallel_dims = residue.size();
  Sublattice change = whole_lattice(iterators);
  for (size_t i = 0; i < parallel_dims; ++i) {
    change.offset[i] = residue[i];
    change.basis[i][i] = residues.moduli[i];
  }
  for (size_t r = parallel_dims; r < iterators; ++r) {
    const Vector& row = residues.transform[r - parallel_dims];
    for (size_t i = 0; i < parallel_dims; ++i) {
      change.basis[r][i] = narrow(-dot(row, residues.drifts[i]));
    }
    for (size_t c = parallel_dims; c < iterators; ++c) change.basis[r][c] = row[c - parallel_dims];
  }
  return change;
}

// Moves every interval to start at 0.
Sublattice to_origin(const Rows& rows) {
  Sublattice change = whole_lattice(rows.iterators);
  for (size_t i = 0; i < rows.iterators; ++i) change.offset[i] = rows.box[i].lo;
  return change;
}

// What a piece still has to check, as 0 <= form < extent.
Condition to_condition(const Row& row) {
  Condition c;
  c.form.coefficients.assign(row.a.begin(), row.a.end());
  c.form.constant = checked_neg(row.range.lo);
  c.hi = narrow(Wide(row.range.hi) - row.range.lo + 1);
  return c;
}

std::optional<Piece> make_piece(const Rows& given, Sublattice change, size_t parallel_dims,
                                const std::string& of) {
  Rows rows = transform(given, change);
  if (!make_exact(rows, of)) return std::nullopt;
  Sublattice origin = to_origin(rows);
  rows = transform(rows, origin);
  Piece piece;
  piece.parallel_dims = parallel_dims;
  piece.substitution = to_substitution(compose(change, origin));
  piece.system.iterators = rows.iterators;
  drop_redundant(rows, of);
  for (const Row& row : rows.rows) piece.system.conditions.push_back(to_condition(row));
  for (const Range& r : rows.box) piece.box.push_back({r.lo, r.hi});
  return piece;
}

bool next(Vector& residue, const Vector& moduli) {
  for (size_t i = residue.size(); i-- > 0;) {
    if (++residue[i] < moduli[i]) return true;
    residue[i] = 0;
  }
  return false;
}

}  // namespace

std::vector<Piece> split(const System& system, size_t parallel_dims, int64_t class_limit,
                         const std::string& of) {
  Rows rows = normalise(system);
  internal_check(rows.congruences.empty(), "split: integrality is solved before");
  std::optional<Residues> residues = choose_residues(rows, parallel_dims, class_limit, of);
  std::vector<Piece> pieces;
  if (!residues) return pieces;
  Vector residue(parallel_dims, 0);
  size_t number = 0;
  do {
    checkpoint();
    Sublattice change = class_change(*residues, residue, system.iterators);
    std::string piece_of = of + " class " + std::to_string(number++);
    if (std::optional<Piece> piece = make_piece(rows, std::move(change), parallel_dims, piece_of)) {
      pieces.push_back(std::move(*piece));
    }
  } while (next(residue, residues->moduli));
  return pieces;
}

}  // namespace tile::lattice
