// The larger and the smaller of two values, as IEEE 754-2019 has them.
#pragma once

#include <cmath>
#include <concepts>
#include <limits>

namespace tile {

// Of floats, `maximum` and `minimum` of IEEE 754-2019: NaN propagates, +0 is larger than -0.
template <class T>
T maximum(T a, T b) {
  if constexpr (std::floating_point<T>) {
    if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a > b ? a : b;
}
template <class T>
T minimum(T a, T b) {
  if constexpr (std::floating_point<T>) {
    if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}

}  // namespace tile
