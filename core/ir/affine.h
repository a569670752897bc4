// Exact rational affine forms over numbered iterators.
#pragma once

#include <span>
#include <string>

#include "core/support/checked.h"
#include "core/support/id.h"
#include "core/support/small_vector.h"

namespace tile {

// The number of an iterator, among those of the piece that a form belongs to.
using IteratorId = Id<struct IteratorTag>;

// coefficients[i] * x_i summed, plus constant. Missing trailing coefficients count as zero.
struct Affine {
  SmallVector<Rational, 6> coefficients;  // contractions mostly have up to six iterators
  Rational constant;

  Rational coefficient(size_t i) const { return i < coefficients.size() ? coefficients[i] : 0; }
  Rational coefficient(IteratorId u) const { return coefficient(u.index()); }
  bool is_constant() const;
  bool is_integral() const;  // every coefficient and the constant are integers
  Rational evaluate(std::span<const int64_t> x) const;
  friend bool operator==(const Affine& a, const Affine& b);
};

Affine operator+(const Affine& a, const Affine& b);
Affine operator-(const Affine& a, const Affine& b);
Affine operator*(const Affine& a, const Rational& factor);
Affine constant_affine(const Rational& value);
Affine iterator_affine(size_t i);  // the form x_i
inline Affine iterator_affine(IteratorId u) { return iterator_affine(u.index()); }
// Replaces x_i by replacement[i] in `form`.
Affine substitute(const Affine& form, std::span<const Affine> replacement);
// "2*i + 1/3*k - 1"; names[i] stands for x_i.
std::string to_string(const Affine& form, std::span<const std::string> names);

}  // namespace tile
