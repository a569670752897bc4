#include "tests/random/agreement/agreement.h"

#include <algorithm>
#include <cmath>

namespace tile::test {
namespace {

double type_epsilon(DType type) {
  switch (type) {
    case DType::f8e4m3:
      return 0x1p-3;
    case DType::f8e5m2:
      return 0x1p-2;
    case DType::f16:
      return 0x1p-9;
    case DType::bf16:
      return 0x1p-6;
    default:
      return 0x1p-20;  // of f32, and of f64 results that come from f32 statements
  }
}

// Beside zero.
double smallest_step(DType type) {
  return type == DType::f8e4m3 ? 0x1p-9 : type == DType::f8e5m2 ? 0x1p-16 : 1e-30;
}

// What a statement makes of sums that cancel is as exact as its largest cells: magnitudes are known
// of sums alone.
double largest_of(const HostTensor& tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    Scalar value = tensor.at(i);
    if (is_float(value.type) && std::isfinite(value.f)) {
      largest = std::max(largest, std::fabs(value.f));
    }
  }
  return largest;
}

bool close(const Scalar& a, const Scalar& b, double magnitude) {
  if (!is_float(a.type)) return a.i == b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(a.f) && std::isnan(b.f);
  if (std::isinf(a.f) || std::isinf(b.f)) return a.f == b.f;
  double scale = std::isfinite(magnitude) ? std::max(magnitude, std::fabs(a.f)) : std::fabs(a.f);
  return std::fabs(a.f - b.f) <=
         type_epsilon(a.type) * std::fabs(a.f) + 0x1p-18 * scale + smallest_step(a.type);
}

bool equal(const Scalar& a, const Scalar& b) {
  return same_value(a, b) || (is_float(a.type) && a.f == b.f);
}

std::string shown(const Scalar& value) {
  return is_float(value.type) ? std::to_string(value.f) : std::to_string(value.i);
}

}  // namespace

std::string difference(const Interpretation& expected, const std::vector<HostTensor>& got,
                       bool exact) {
  if (expected.outputs.size() != got.size()) return "another number of outputs";
  for (size_t o = 0; o < got.size(); ++o) {
    const HostTensor &a = expected.outputs[o], &b = got[o];
    std::string where = "output " + std::to_string(o);
    double largest = exact ? 0 : largest_of(a);
    if (a.type != b.type || a.shape != b.shape) return where + ": another type or shape";
    for (int64_t i = 0; i < a.count(); ++i) {
      Scalar x = a.at(i), y = b.at(i);
      bool agrees =
          exact ? equal(x, y) : close(x, y, std::max(largest, expected.magnitudes.at(o).at(i).f));
      if (!agrees) {
        return where + ", element " + std::to_string(i) + ": expected " + shown(x) + ", got " +
               shown(y);
      }
    }
  }
  return "";
}

}  // namespace tile::test
