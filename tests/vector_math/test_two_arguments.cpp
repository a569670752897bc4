// Rule 6.3 for pow, and rule 6.2 for atan2, fmod, max and min: all pairs of special values, and
// random pairs. Every variant must give the same bits.

#include <algorithm>

#include "backends/cpu/math/vector_math.h"
#include "tests/vector_math/accuracy.h"
#include "tests/vector_math/jit.h"

namespace tile::test {
namespace {

using Emit = llvm::Value* (*)(llvm::IRBuilderBase&, llvm::Value*, llvm::Value*);

template <class T>
struct Pairs {
  std::vector<T> a, b;
  void add(T x, T y) {
    a.push_back(x);
    b.push_back(y);
  }
};

/// All pairs of special values and `count` random ones, many with a representable power.
template <class T>
Pairs<T> pairs(size_t count) {
  Pairs<T> result;
  std::vector<T> special = special_values<T>();
  for (T whole : {3, 5, 7, 101}) special.insert(special.end(), {whole, -whole});
  for (T x : special) {
    for (T y : special) result.add(x, y);
  }
  std::mt19937_64 random(77);
  std::uniform_real_distribution<double> exponent(-100, 100), linear(-20, 20), unit(-1, 1);
  std::vector<T> any = samples<T>(2 * count);
  for (size_t i = 0; i < count; ++i) {
    switch (i % 4) {
      case 0:
        result.add(any[2 * i], any[2 * i + 1]);
        break;
      case 1:
        result.add(T(std::exp2(exponent(random))), T(unit(random)));
        break;
      case 2:
        result.add(T(1 + unit(random) * 1e-3), T(linear(random) * 1000));
        break;
      default:
        result.add(T(linear(random)), T(std::floor(linear(random))));
    }
  }
  return result;
}

template <class T>
void check(const char* name, Emit emit, Exact<T> (*reference)(Exact<T>, Exact<T>), double limit) {
  Pairs<T> in = pairs<T>(200'000);
  Emitter emitter = [&](llvm::IRBuilderBase& ir, llvm::ArrayRef<llvm::Value*> v) {
    return emit(ir, v[0], v[1]);
  };
  std::vector<T> first;
  for (const Variant& v : variants()) {
    std::vector<T> out = Compiled<T, T>(emitter, 2, v.cpu, v.lanes)(in.a, in.b);
    if (first.empty()) first = out;
    for (size_t i = 0; i < out.size(); ++i) {
      bool same =
          bits_of(out[i]) == bits_of(first[i]) || (std::isnan(out[i]) && std::isnan(first[i]));
      ASSERT_TRUE(same) << name << "(" << in.a[i] << ", " << in.b[i] << ") on " << name_of(v.cpu)
                        << " with " << v.lanes << " lanes";
    }
  }
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    double distance = ulp_distance<T>(first[i], reference(in.a[i], in.b[i]));
    if (distance > worst) {
      worst = distance;
      at = i;
    }
  }
  EXPECT_LE(worst, limit) << name << "(" << in.a[at] << ", " << in.b[at] << ") = " << first[at];
  if (std::getenv("TILE_PRINT_ULP")) {
    std::printf("%s %s max ulp %.3f at (%.17g, %.17g)\n", name, sizeof(T) == 4 ? "f32" : "f64",
                worst, static_cast<double>(in.a[at]), static_cast<double>(in.b[at]));
  }
}

template <class T>
T larger(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <class T>
T smaller(T a, T b) {
  return -larger(-a, -b);
}

#define TILE_BINARY(test, name, reference, single, twice)                                      \
  TEST(VectorMathPairs, test) {                                                                \
    check<float>(                                                                              \
        #name, cpu::emit_##name, [](double a, double b) { return reference(a, b); }, single);  \
    check<double>(                                                                             \
        #name, cpu::emit_##name, [](long double a, long double b) { return reference(a, b); }, \
        twice);                                                                                \
  }
TILE_BINARY(Power, pow, std::pow, 0.51, 1)
TILE_BINARY(ArcTangent, atan2, std::atan2, 2, 2)
TILE_BINARY(Remainder, fmod, std::fmod, 0, 0)
TILE_BINARY(Maximum, max, larger, 0, 0)
TILE_BINARY(Minimum, min, smaller, 0, 0)
#undef TILE_BINARY

}  // namespace
}  // namespace tile::test
