// 64-bit integers whose overflow is an exception, never a wrong value, and exact rationals over
// them.
#pragma once

#include <compare>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>

namespace tile {

// Thrown by the functions below; whoever knows the statement turns it into a Failure.
class Overflow : public std::exception {
 public:
  const char* what() const noexcept override { return "64-bit integer overflow"; }
};

inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) throw Overflow();
  return r;
}
inline int64_t checked_sub(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_sub_overflow(a, b, &r)) throw Overflow();
  return r;
}
inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) throw Overflow();
  return r;
}
inline int64_t checked_neg(int64_t a) { return checked_sub(0, a); }

// Division by a non-zero divisor. The quotient rounds down (floor), up (ceil) or toward zero
// (trunc); the remainder of floor_mod has the sign of the divisor.
inline int64_t floor_div(int64_t a, int64_t b) {
  if (b == -1) return checked_neg(a);
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
inline int64_t ceil_div(int64_t a, int64_t b) {
  if (b == -1) return checked_neg(a);
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) == (b < 0))) ? q + 1 : q;
}
inline int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  int64_t r = a % b;
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}
inline int64_t trunc_div(int64_t a, int64_t b) { return b == -1 ? checked_neg(a) : a / b; }
inline int64_t trunc_mod(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }

// Greatest common divisor, never negative; gcd(0, 0) = 0.
int64_t gcd(int64_t a, int64_t b);
int64_t lcm(int64_t a, int64_t b);

// An exact rational in lowest terms with a positive denominator.
class Rational {
 public:
  Rational() = default;
  Rational(int64_t value) : num_(value) {}  // NOLINT: integers are rationals
  Rational(int64_t num, int64_t den);       // den != 0

  int64_t num() const { return num_; }
  int64_t den() const { return den_; }
  bool is_integer() const { return den_ == 1; }
  bool is_zero() const { return num_ == 0; }
  int64_t floor() const { return floor_div(num_, den_); }
  int64_t ceil() const { return ceil_div(num_, den_); }

  friend Rational operator+(const Rational& a, const Rational& b);
  friend Rational operator-(const Rational& a, const Rational& b);
  friend Rational operator*(const Rational& a, const Rational& b);
  friend Rational operator/(const Rational& a, const Rational& b);  // b != 0
  friend Rational operator-(const Rational& a) { return Rational(0) - a; }
  Rational& operator+=(const Rational& b) { return *this = *this + b; }
  Rational& operator-=(const Rational& b) { return *this = *this - b; }
  Rational& operator*=(const Rational& b) { return *this = *this * b; }
  friend bool operator==(const Rational&, const Rational&) = default;
  friend std::strong_ordering operator<=>(const Rational& a, const Rational& b);

 private:
  int64_t num_ = 0;
  int64_t den_ = 1;
};
std::string to_string(const Rational& value);  // "3", "-1/2"

}  // namespace tile
