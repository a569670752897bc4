#pragma once
// The functions of one argument, what they should give, and how far off they may be.

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "backends/cpu/math/vector_math.h"

namespace tile::test {

struct UnaryFunction {
  std::string name;
  llvm::Value* (*emit)(llvm::IRBuilderBase&, llvm::Value*);
  double (*reference)(double);
  long double (*wide_reference)(long double);
  /// Largest error in ulp, for float and for double.
  double single_limit, double_limit;
};
inline std::ostream& operator<<(std::ostream& out, const UnaryFunction& f) { return out << f.name; }

namespace exact {

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}
template <class T>
T softplus(T x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
template <class T>
T gelu(T x) {
  // At minus infinity the limit.
  if (std::isinf(x) && x < 0) return -T(0);
  return x / 2 * std::erfc(-x * T(0.70710678118654752440084436210484904L));
}
template <class T>
T rsqrt(T x) {
  return 1 / std::sqrt(x);
}
template <class T>
T reciprocal(T x) {
  return 1 / x;
}
template <class T>
T round(T x) {
  return std::nearbyint(x);
}
template <class T>
T sign(T x) {
  return x > 0 ? T(1) : x < 0 ? T(-1) : x == 0 ? T(0) : x;
}
template <class T>
T relu(T x) {
  return x > 0 || std::isnan(x) ? x : T(0);
}

}  // namespace exact

inline const std::vector<UnaryFunction>& unary_functions() {
  using std::string;
#define TILE_UNARY(name, space, single, twice)                        \
  UnaryFunction {                                                     \
    #name, cpu::emit_##name, [](double x) { return space::name(x); }, \
        [](long double x) { return space::name(x); }, single, twice   \
  }
  static const std::vector<UnaryFunction> all{TILE_UNARY(exp, std, 1, 1),
                                              TILE_UNARY(exp2, std, 1, 1),
                                              TILE_UNARY(expm1, std, 2.25, 2.25),
                                              TILE_UNARY(sigmoid, exact, 2.5, 2.5),
                                              TILE_UNARY(tanh, std, 2.75, 2.75),
                                              TILE_UNARY(sinh, std, 2, 2),
                                              TILE_UNARY(cosh, std, 2, 2),
                                              TILE_UNARY(log, std, 1, 1),
                                              TILE_UNARY(log2, std, 2, 2),
                                              TILE_UNARY(log1p, std, 2, 2),
                                              TILE_UNARY(softplus, exact, 2.25, 2.25),
                                              TILE_UNARY(asinh, std, 2.25, 2.25),
                                              TILE_UNARY(acosh, std, 2.25, 2.25),
                                              TILE_UNARY(atanh, std, 2.5, 2.5),
                                              TILE_UNARY(sin, std, 2, 2),
                                              TILE_UNARY(cos, std, 2, 2),
                                              TILE_UNARY(tan, std, 4, 4),
                                              TILE_UNARY(asin, std, 2.5, 2.5),
                                              TILE_UNARY(acos, std, 2, 2),
                                              TILE_UNARY(atan, std, 2, 2),
                                              TILE_UNARY(erf, std, 1.75, 1.5),
                                              TILE_UNARY(gelu, exact, 3.5, 6),
                                              TILE_UNARY(floor, std, 0, 0),
                                              TILE_UNARY(ceil, std, 0, 0),
                                              TILE_UNARY(trunc, std, 0, 0),
                                              TILE_UNARY(round, exact, 0, 0),
                                              TILE_UNARY(abs, std, 0, 0),
                                              TILE_UNARY(sign, exact, 0, 0),
                                              TILE_UNARY(relu, exact, 0, 0),
                                              TILE_UNARY(sqrt, std, 0.5, 0.501),
                                              TILE_UNARY(rsqrt, exact, 1.51, 1.51),
                                              TILE_UNARY(reciprocal, exact, 0.5, 0.501)};
#undef TILE_UNARY
  return all;
}

}  // namespace tile::test
