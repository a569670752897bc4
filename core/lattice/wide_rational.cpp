#include "core/lattice/wide_rational.h"

namespace tile::lattice {
namespace {

using Unsigned = unsigned __int128;

Unsigned magnitude(Wide v) { return v < 0 ? -static_cast<Unsigned>(v) : static_cast<Unsigned>(v); }

// Of values that are not both 0.
Wide wide_gcd(Wide x, Wide y) {
  Unsigned a = magnitude(x), b = magnitude(y);
  while ((a >> 64) != 0 || (b >> 64) != 0) {
    if (b == 0) return static_cast<Wide>(a);
    Unsigned t = a % b;
    a = b;
    b = t;
  }
  auto p = static_cast<uint64_t>(a), q = static_cast<uint64_t>(b);
  while (q != 0) {
    uint64_t t = p % q;
    p = q;
    q = t;
  }
  return static_cast<Wide>(p);
}

Wide wide_product(Wide a, Wide b) {
  Wide r;
  if (__builtin_mul_overflow(a, b, &r)) throw Overflow();
  return r;
}

}  // namespace

int64_t WideRational::floor() const {
  Wide q = num_ / den_;
  return narrow(num_ % den_ < 0 ? q - 1 : q);
}
int64_t WideRational::ceil() const {
  Wide q = num_ / den_;
  return narrow(num_ % den_ > 0 ? q + 1 : q);
}

WideRational operator-(const WideRational& a) {
  if (magnitude(a.num_) >> 127 != 0) throw Overflow();
  return {-a.num_, a.den_};
}

WideRational operator+(const WideRational& a, const WideRational& b) {
  if (a.den_ == 1 && b.den_ == 1) return wide_add(a.num_, b.num_);
  // Knuth, "The Art of Computer Programming", 4.5.1: the common factor of the sum divides g.
  Wide g = wide_gcd(a.den_, b.den_);
  Wide sum = wide_add(wide_product(a.num_, b.den_ / g), wide_product(b.num_, a.den_ / g));
  if (sum == 0) return 0;
  Wide common = g == 1 ? 1 : wide_gcd(sum, g);
  return {sum / common, wide_product(a.den_ / g, b.den_ / common)};
}

WideRational operator*(const WideRational& a, const WideRational& b) {
  if (a.num_ == 0 || b.num_ == 0) return 0;
  Wide g = b.den_ == 1 ? 1 : wide_gcd(a.num_, b.den_);
  Wide h = a.den_ == 1 ? 1 : wide_gcd(b.num_, a.den_);
  return {wide_product(a.num_ / g, b.num_ / h), wide_product(a.den_ / h, b.den_ / g)};
}

WideRational operator/(const WideRational& a, const WideRational& b) {
  if (b.num_ == 0) throw Overflow();
  WideRational inverse = b.num_ > 0 ? WideRational(b.den_, b.num_) : -WideRational(b.den_, 1);
  if (b.num_ < 0) inverse.den_ = (-b).num_;
  return a * inverse;
}

std::strong_ordering operator<=>(const WideRational& a, const WideRational& b) {
  if (a.den_ == b.den_) return a.num_ <=> b.num_;
  return wide_product(a.num_, b.den_) <=> wide_product(b.num_, a.den_);
}

}  // namespace tile::lattice
