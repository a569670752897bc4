#include "core/support/checked.h"

namespace tile {
namespace {

using Wide = __int128;

Wide wide_gcd(Wide a, Wide b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) {
    Wide t = a % b;
    a = b;
    b = t;
  }
  return a;
}

int64_t narrow(Wide value) {
  if (value > std::numeric_limits<int64_t>::max() || value < std::numeric_limits<int64_t>::min()) {
    throw Overflow();
  }
  return static_cast<int64_t>(value);
}

Wide wide_add(Wide a, Wide b) {
  Wide r;
  if (__builtin_add_overflow(a, b, &r)) throw Overflow();
  return r;
}

Rational reduced(Wide num, Wide den) {
  if (den < 0) {
    num = -num;
    den = -den;
  }
  Wide g = wide_gcd(num, den);
  if (g > 1) {
    num /= g;
    den /= g;
  }
  return Rational(narrow(num), narrow(den));
}

}  // namespace

int64_t gcd(int64_t a, int64_t b) { return narrow(wide_gcd(a, b)); }

int64_t lcm(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  Wide product = Wide(a) / wide_gcd(a, b) * b;
  return narrow(product < 0 ? -product : product);
}

Rational::Rational(int64_t num, int64_t den) : num_(num), den_(den) {
  if (den == 1) return;
  if (den == 0) throw Overflow();
  int64_t g = gcd(num, den);
  num_ = num / g;
  den_ = den / g;
  if (den_ < 0) {
    num_ = checked_neg(num_);
    den_ = checked_neg(den_);
  }
}

Rational operator+(const Rational& a, const Rational& b) {
  if (a.den_ == 1 && b.den_ == 1) return checked_add(a.num_, b.num_);
  return reduced(wide_add(Wide(a.num_) * b.den_, Wide(b.num_) * a.den_), Wide(a.den_) * b.den_);
}
Rational operator-(const Rational& a, const Rational& b) {
  if (a.den_ == 1 && b.den_ == 1) return checked_sub(a.num_, b.num_);
  return reduced(wide_add(Wide(a.num_) * b.den_, -(Wide(b.num_) * a.den_)), Wide(a.den_) * b.den_);
}
Rational operator*(const Rational& a, const Rational& b) {
  if (a.den_ == 1 && b.den_ == 1) return checked_mul(a.num_, b.num_);
  return reduced(Wide(a.num_) * b.num_, Wide(a.den_) * b.den_);
}
Rational operator/(const Rational& a, const Rational& b) {
  if (b.num_ == 0) throw Overflow();
  if (b.num_ == 1 && b.den_ == 1) return a;
  return reduced(Wide(a.num_) * b.den_, Wide(a.den_) * b.num_);
}
std::strong_ordering operator<=>(const Rational& a, const Rational& b) {
  if (a.den_ == b.den_) return a.num_ <=> b.num_;
  Wide left = Wide(a.num_) * b.den_, right = Wide(b.num_) * a.den_;
  return left < right   ? std::strong_ordering::less
         : left > right ? std::strong_ordering::greater
                        : std::strong_ordering::equal;
}

std::string to_string(const Rational& value) {
  std::string out = std::to_string(value.num());
  if (value.den() != 1) out += "/" + std::to_string(value.den());
  return out;
}

}  // namespace tile
