// Integer rows: the working form of a system inside core/lattice. Every condition becomes a
// two-sided row over integers (lo <= a.x <= hi, divided by the gcd of a), a congruence, or a bound
// of one iterator. Sums are taken in 128 bits and checked.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/lattice/lattice.h"

namespace tile::lattice {

using Wide = __int128;

inline Wide wide_add(Wide a, Wide b) {
  Wide r;
  if (__builtin_add_overflow(a, b, &r)) throw Overflow();
  return r;
}
inline int64_t narrow(Wide value) {
  if (value != static_cast<int64_t>(value)) throw Overflow();
  return static_cast<int64_t>(value);
}
Wide dot(std::span<const int64_t> a, std::span<const int64_t> b);
int64_t gcd_of(std::span<const int64_t> a);

// The extreme values stand for "no bound"; a true bound that large is an overflow.
constexpr int64_t no_lower = std::numeric_limits<int64_t>::min();
constexpr int64_t no_upper = std::numeric_limits<int64_t>::max();

// Inclusive.
struct Range {
  int64_t lo = no_lower;
  int64_t hi = no_upper;
  bool empty() const { return lo > hi; }
  bool bounded() const { return lo != no_lower && hi != no_upper; }
  bool fixed() const { return lo == hi; }
};

struct Row {
  Vector a;
  Range range;
};

// a.x + constant is a multiple of the modulus; modulus 0 makes it an equation.
struct Congruence {
  Vector a;
  int64_t constant = 0;
  int64_t modulus = 0;
};

struct Rows {
  size_t iterators = 0;
  std::vector<Row> rows;  // each with two or more iterators, coefficients coprime
  std::vector<Congruence> congruences;
  std::vector<Range> box;  // what conditions on one iterator say
  bool empty = false;      // a contradiction was seen
};

Rows normalise(const System& system);
// Adds lo <= a.x <= hi (no_lower and no_upper as above).
void add_row(Rows& rows, Vector a, Wide lo, Wide hi);

// The values a row takes over a box; the ends are no_lower or no_upper where the box is open or the
// value leaves 64 bits.
Range row_values(std::span<const int64_t> a, std::span<const Range> box);
// Whether every point of the box satisfies the row.
bool implied(const Row& row, std::span<const Range> box);
// Tightens the box by each row in turn, a few rounds; false when a row cannot be met.
bool propagate(Rows& rows);
// Propagation and exact linear programming until no bound moves; false when there is no point.
bool relax(Rows& rows);
// Groups of iterators connected by rows that the box does not imply; single iterators are left out.
struct Component {
  std::vector<size_t> iterators;
  std::vector<size_t> rows;
};
std::vector<Component> components(const Rows& rows);
// The part of `rows` on one component, its iterators renumbered.
Rows part(const Rows& rows, const Component& component);
// Exact search, see emptiness().
Emptiness search(const Rows& rows, int64_t work_limit);

// The points offset + basis * z: `basis` has a row for each x and a column for each z, and its
// columns are independent.
struct Sublattice {
  size_t columns = 0;
  Vector offset;
  Matrix basis;
};
Sublattice whole_lattice(size_t iterators);
// Keeps the points that satisfy the congruence; false when there are none. Iterators that the
// congruence does not need to change stay as they are.
bool restrict_lattice(Sublattice& lattice, const Congruence& congruence);
// Rewrites the rows and the box in z.
Rows transform(const Rows& rows, const Sublattice& lattice);
// Solves congruences, equations and fixed iterators exactly until none is left; `lattice` maps the
// remaining iterators back. False when there is no point.
bool eliminate(Rows& rows, Sublattice& lattice);
// x = outer(inner(z)).
Sublattice compose(const Sublattice& outer, const Sublattice& inner);
// A unimodular change of iterators after which few values of some iterator lie within the rows: the
// columns of the rows, in units of their ranges, are short and nearly orthogonal.
Sublattice short_basis(const Rows& rows);
Substitution to_substitution(const Sublattice& lattice);

}  // namespace tile::lattice
