// Exact rationals over 128 bits, for the simplex, whose intermediate values are quotients of
// minors. Overflow throws.
#pragma once

#include <compare>

#include "core/lattice/rows.h"

namespace tile::lattice {

class WideRational {
 public:
  WideRational() = default;
  WideRational(Wide value) : num_(value) {}  // NOLINT: integers are rationals

  bool is_integer() const { return den_ == 1; }
  bool is_zero() const { return num_ == 0; }
  int sign() const { return num_ > 0 ? 1 : num_ < 0 ? -1 : 0; }
  int64_t floor() const;
  int64_t ceil() const;
  double approximate() const { return double(num_) / double(den_); }

  friend WideRational operator-(const WideRational& a);
  friend WideRational operator+(const WideRational& a, const WideRational& b);
  friend WideRational operator-(const WideRational& a, const WideRational& b) { return a + -b; }
  friend WideRational operator*(const WideRational& a, const WideRational& b);
  friend WideRational operator/(const WideRational& a, const WideRational& b);  // b != 0
  WideRational& operator+=(const WideRational& b) { return *this = *this + b; }
  friend bool operator==(const WideRational&, const WideRational&) = default;
  friend std::strong_ordering operator<=>(const WideRational& a, const WideRational& b);

 private:
  WideRational(Wide num, Wide den) : num_(num), den_(den) {}

  Wide num_ = 0;  // in lowest terms, the denominator positive
  Wide den_ = 1;
};

}  // namespace tile::lattice
