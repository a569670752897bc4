// How far apart two results of floats are.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/ir/scalar.h"

namespace tile::test {

// Relative to the largest value of `b`, 1 at least; infinite where a difference is not finite.
inline double largest_difference(const HostTensor& a, const HostTensor& b) {
  double most = 0, scale = 1;
  for (int64_t i = 0; i < b.count(); ++i) {
    double x = a.at(i).f, y = b.at(i).f;
    most = std::max(most, std::isfinite(x - y) ? std::abs(x - y) : HUGE_VAL);
    scale = std::max(scale, std::abs(y));
  }
  return most / scale;
}

}  // namespace tile::test
