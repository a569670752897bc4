#pragma once
// Sample values and the distance of a result from an exact one, in units in the last place.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace tile::test {

/// The type in which a result of type T is judged.
template <class T>
struct Wider;
template <>
struct Wider<float> {
  using type = double;
  using Bits = uint32_t;
};
template <>
struct Wider<double> {
  using type = long double;
  using Bits = uint64_t;
};
template <class T>
using Exact = typename Wider<T>::type;

template <class T>
auto bits_of(T x) {
  return std::bit_cast<typename Wider<T>::Bits>(x);
}

/// |got - exact| in units in the last place of `exact`; infinite for a wrong NaN, a wrong infinity
/// or a zero of the wrong sign.
template <class T>
double ulp_distance(T got, Exact<T> exact) {
  using Limits = std::numeric_limits<T>;
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (std::isnan(exact) || std::isnan(got)) {
    return std::isnan(exact) && std::isnan(got) ? 0 : wrong;
  }
  if (std::signbit(got) != std::signbit(exact)) return wrong;
  if (exact == 0) return got == 0 ? 0 : wrong;
  // Numbers beyond the format, its infinity included, are as far away as the first of them.
  Exact<T> end = std::ldexp(Exact<T>(1), Limits::max_exponent);
  if (std::isinf(exact)) return std::isinf(got) ? 0 : wrong;
  Exact<T> a = std::min(std::fabs(exact), end);
  Exact<T> g = std::isinf(got) ? end : std::fabs(Exact<T>(got));
  int exponent = std::max(std::ilogb(a), Limits::min_exponent - 1);
  exponent = std::min(exponent, Limits::max_exponent - 1);
  return static_cast<double>(std::ldexp(std::fabs(g - a), Limits::digits - 1 - exponent));
}

template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> positive{0,
                          Limits::infinity(),
                          Limits::quiet_NaN(),
                          Limits::denorm_min(),
                          3 * Limits::denorm_min(),
                          Limits::min() / 2,
                          std::nextafter(Limits::min(), T(0)),
                          Limits::min(),
                          Limits::max(),
                          Limits::epsilon(),
                          T(0.5),
                          1,
                          std::nextafter(T(1), T(0)),
                          std::nextafter(T(1), T(2)),
                          T(1.5),
                          2,
                          3,
                          4,
                          T(2.5),
                          1e5,
                          T(16777217),
                          T(0x1p24),
                          T(0x1.921fb54442d18p+0),
                          T(0x1.921fb54442d18p+1),
                          T(127),
                          T(128),
                          T(150)};
  // A NaN with a payload, which integer arithmetic on its bits could turn into a number.
  positive.push_back(std::bit_cast<T>(bits_of(Limits::quiet_NaN()) | 0x12345));
  std::vector<T> all = positive;
  for (T x : positive) all.push_back(-x);
  return all;
}

/// Every `stride`-th of all 2^32 floats from `first` on, at most `count`.
inline std::vector<float> float_patterns(uint64_t first, uint64_t stride, size_t count) {
  std::vector<float> values;
  for (uint64_t bits = first; bits < (uint64_t{1} << 32) && values.size() < count; bits += stride) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  return values;
}

/// Values of every magnitude, and many of the usual ones.
template <class T>
std::vector<T> samples(size_t count) {
  std::vector<T> values = special_values<T>();
  std::mt19937_64 random(20240607);
  auto pattern = [&] { return std::bit_cast<T>(static_cast<typename Wider<T>::Bits>(random())); };
  std::uniform_real_distribution<double> exponent(-40, 12), linear(-30, 30);
  for (size_t i = 0; i < count; ++i) {
    switch (i % 4) {
      case 0:
        values.push_back(pattern());
        break;
      case 1:
        values.push_back(T(std::exp2(exponent(random))));
        break;
      case 2:
        values.push_back(-T(std::exp2(exponent(random))));
        break;
      default:
        values.push_back(T(linear(random)));
    }
  }
  return values;
}

}  // namespace tile::test
