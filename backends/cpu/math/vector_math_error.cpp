// The error function and gelu.

#include "backends/cpu/math/vector_math.h"
#include "backends/cpu/math/vector_math_kernels.h"

namespace tile::cpu {
namespace lanes {
namespace {

// erf(x) = x + x P(x^2), |x| <= 1. Relative error 2^-24.6.
constexpr double erf_near[] = {1.12837912 - 1, -0.376123262f,  0.112801801f,
                               -0.026711311f,  0.00491755072f, -0.00056314178f};

// erf(x) = 1 - e^-P(x), 1 <= x <= 3.93, where it rounds to 1. Error 2^-25.9.
constexpr double erf_far[] = {0.00261913738f, 1.11762132f,    0.654240096f,
                              0.0887996167f,  -0.0148317828f, 0.00115720938f};

// e^(a^2/2) a Phi(-a) = U / (sqrt(2 pi) U + W(a)), U = a P(a), 0 <= a <= 15. Relative error 2^-30.
// Nothing cancels, and where a is large W is small beside U, so that U's rounding hardly matters.
// (W(0) = 1.5 keeps intermediate results in the upper half of a binade, where rounding is
// relatively small.)
constexpr double tail_w[] = {1.5f, 0.948103556f, 0.313704111f, 0.0564701992f, 0.00473500524f};
constexpr double tail_p[] = {0.75f,        0.815624005f,  0.425845946f,
                             0.128730792f, 0.0225372447f, 0.0018888192f};

// sqrt(2 pi) e^(a^2/2) a Phi(-a) in 1/a^2. Relative error 2^-57 for a >= 30.
constexpr double asymptotic_series[] = {1, -1, 3, -15, 105, -945, 10395, -135135};

Real erf_single(Real x) {
  Real a = at_most(abs(x), 3.93);
  Real near = fma(a, polynomial(a * a, erf_near), a);
  auto [r, shifted] = reduce_by_ln2(-polynomial(a, erf_far), static_cast<int>(format_of(a).bias));
  Real far = 1.0 - exp_reduced(r) * power_of_two(shifted, x);
  return copysign(select(a < 1.0, near, far), x);
}

/// factor * e^(-a^2/2), rounded once where it is subnormal; a <= 40.
Real times_gaussian(Real a, Real factor) {
  // What a*a loses matters: e^(-a^2/2) magnifies it by up to a^2/2.
  Real square = a * a;
  Real lost = fma(a, a, -square);
  auto [r, shifted] = reduce_by_ln2(square * -0.5, 2 * static_cast<int>(format_of(a).bias));
  return scale_twice(fma(expm1_reduced(fma(lost, -0.5, r)), factor, factor), shifted);
}

/// a * Phi(-a) for a >= 0.
Real gelu_tail_single(Real magnitude) {
  Real a = at_most(magnitude, 15.0);
  Real u = a * polynomial(a, tail_p);
  return times_gaussian(a, u / fma(u, 0x1.40d931ff62705p+1, polynomial(a, tail_w)));
}

/// The same in double: a/2 erfc(a/sqrt 2), corrected for the rounding of a/sqrt 2; and, before erfc
/// becomes subnormal, the asymptotic series.
Real gelu_tail_double(Real magnitude) {
  Real a = at_most(magnitude, 40.0);
  Real z = a * 0x1.6a09e667f3bcdp-1;
  Real lost =
      fma(z, 0x1.bdd3413b26456p-54, fma(-z, 0x1.6a09e667f3bcdp+0, a)) * 0x1.6a09e667f3bcdp-1;
  Real tail = (a * 0.5) * libm_per_lane("erfc", {z});
  tail = fma(tail * lost, z * -2.0, tail);
  Real far = polynomial(1.0 / (a * a), asymptotic_series) * 0x1.9884533d43651p-2;
  return select(a > 30.0, times_gaussian(a, far), tail);
}

Real erf(Real x) {
  if (!is_double(x)) return erf_single(x);
  return outlined("erf", {x}, [](llvm::ArrayRef<Real> p) { return libm_per_lane("erf", p); });
}

Real gelu(Real x) {
  // x Phi(x) = max(x, 0) - |x| Phi(-|x|)
  Real tail = is_double(x)
                  ? outlined("gelu_tail", {abs(x)},
                             [](llvm::ArrayRef<Real> p) { return gelu_tail_double(p.front()); })
                  : gelu_tail_single(abs(x));
  return select(x < 0.0, -0.0, x) - tail;
}

}  // namespace
}  // namespace lanes

llvm::Value* emit_erf(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::erf, x);
}
llvm::Value* emit_gelu(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::gelu, x);
}

}  // namespace tile::cpu
