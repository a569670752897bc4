// Exact integer algebra over affine conditions: bounds, emptiness, and the changes of variables
// that give every output cell one point of the parallel dimensions. All arithmetic is checked;
// overflow throws tile::Overflow. Sources: Hermite normal form after Cohen, "A Course in
// Computational Algebraic Number Theory", 2.4; reduce and defract after PlaidML's design.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/ir/affine.h"

namespace tile::lattice {

// One condition on integer iterators: lo <= form < hi, and, if `integral`, form is an integer.
// A form that need not be an integer may take fractional values between the bounds.
struct Condition {
  Affine form;
  int64_t lo = 0;
  int64_t hi = 0;
  bool integral = true;
};

// All x in Z^iterators that satisfy every condition.
struct System {
  size_t iterators = 0;
  std::vector<Condition> conditions;
};

// Inclusive; lo > hi means empty.
struct Interval {
  int64_t lo = 0;
  int64_t hi = -1;
  bool empty() const { return lo > hi; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

enum class Emptiness : uint8_t {
  empty,
  inhabited,
  unknown
};  // unknown: the work limit was reached

struct Bounds {
  bool empty = false;               // proved to have no point
  std::optional<size_t> unbounded;  // an iterator without a bound (then `box` is meaningless)
  std::vector<Interval> box;        // for each iterator an interval that holds all its values
};

// The box of a system: the smallest interval of each iterator over the rational relaxation (exact
// rational elimination), rounded inward to integers and to the integrality conditions, iterated
// until stable.
Bounds bounds(const System& system);

// Whether the system has an integer point; exact while at most `work_limit` search nodes are
// visited.
Emptiness emptiness(const System& system, int64_t work_limit = 1 << 20);

// Integer matrices by rows.
using Vector = SmallVector<int64_t, 8>;
using Matrix = std::vector<Vector>;

// Column-style Hermite normal form: matrix * transform = form, transform unimodular. Non-zero
// columns come first, each with its pivot row strictly below the previous one's pivot, pivots
// positive, entries to the left of a pivot in its row reduced into [0, pivot).
struct Hermite {
  Matrix form;
  Matrix transform;
  size_t rank = 0;
};
Hermite hermite_normal_form(const Matrix& matrix, size_t columns);

// A change of variables x = old_in_new(z), z in Z^iterators of the new system, one to one onto the
// integer points of the old one (or, after digits are peeled, onto one residue class of them).
struct Substitution {
  size_t iterators = 0;            // of the new system
  std::vector<Affine> old_in_new;  // old x_i as an integral affine form in z
};

// The sublattice on which every integral form is an integer: after the substitution all integral
// conditions have integral affine forms. nullopt: no integer point can satisfy them.
std::optional<Substitution> solve_integrality(const System& system);

// Makes ownership explicit. `outputs` are integral affine forms (the output access). After the
// substitution the first `parallel_dims` iterators determine the output cell and are determined by
// it, and the others do not appear in the outputs: they are the reduction. Keeps iterators as they
// are (a mere permutation) where that already holds. (PlaidML's "reduce".)
struct Ownership {
  Substitution substitution;
  size_t parallel_dims = 0;
};
Ownership own_outputs(size_t iterators, std::span<const Affine> outputs);
// The same with an interval for each iterator (bounds().box): iterators that an output dimension
// tells apart as the digits of a mixed-radix number (12*a + 4*b + c with b < 3, c < 4) stay
// parallel dimensions.
Ownership own_outputs(size_t iterators, std::span<const Affine> outputs,
                      std::span<const Interval> box);

// One residue class of the parallel dimensions: a substitution and the conditions rewritten.
struct Piece {
  Substitution substitution;  // from the iterators given to `split`
  System system;  // in the new iterators, redundant conditions dropped, box not repeated
  std::vector<Interval> box;  // exact integer box of each iterator, every lo == 0
  size_t parallel_dims = 0;   // the first `parallel_dims` iterators, as in Ownership
};

// PlaidML's "defract", with small digits peeled: splits the parallel dimensions by residues (the
// digits i/n, i%n) so that, wherever the lattice allows, the conditions with the smallest ranges
// bound the reduction iterators independently of the parallel dimensions (article: 3*y + 2*j gives
// 0 <= v1_0 < 3 with taps stepping by 3), shifts every iterator so that its box starts at 0, and
// drops classes without points. Every integer point of `system` is in exactly one piece, and pieces
// never share an output cell. At most `class_limit` classes are made; beyond it the system comes
// back as one piece.
// Which rows bound the loops, which ranges are those that conditions on one iterator state and
// which conditions are kept are choices (core/support/choices.h), asked under the name `of`: where
// another size's are on record, this one's pieces are alike if their numbers are, and their boxes
// may then be wider than the points.
inline constexpr int64_t kClassLimit = 64;
std::vector<Piece> split(const System& system, size_t parallel_dims,
                         int64_t class_limit = kClassLimit, const std::string& of = "split");

// Drops conditions that the box alone implies.
void drop_implied(System& system, std::span<const Interval> box);

}  // namespace tile::lattice
