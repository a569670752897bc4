// Exponentials and the functions made from them: exp exp2 expm1 sigmoid sinh cosh tanh.
//
// e^x = 2^n * e^r, n = round(x/ln2), r = x - n*ln2 in two fused steps. Adding 1.5*2^mantissa rounds
// to an integer and leaves n in the low bits of the sum, biased as the caller likes, so that a
// shift makes a power of two.

#include "backends/cpu/math/vector_math.h"
#include "backends/cpu/math/vector_math_kernels.h"

namespace tile::cpu {
namespace lanes {
namespace {

constexpr double log2_of_e = 0x1.71547652b82fep+0;

// e^r = 1 + r + r^2 P(r), |r| <= ln2/2. Error relative to e^r - 1: 2^-25.8, 2^-55.3.
constexpr double exp_single[] = {0.49999997f, 0.166665435f, 0.0416672006f, 0.00836651772f,
                                 0.00138825015f};
constexpr double exp_twice[] = {
    0.5000000000000006,    0.16666666666666677,   0.04166666666657379,    0.00833333333332192,
    0.0013888888932305353, 0.0001984126988576628, 2.4801504545092794e-05, 2.755724422034577e-06,
    2.762628504808158e-07, 2.5109143566475812e-08};
constexpr Coefficients exp_coefficients{exp_single, exp_twice};

// 2^r = 1 + r P(r), |r| <= 1/2. Error relative to 1: 2^-26.0, 2^-55.9.
constexpr double exp2_single[] = {0.693147182f,   0.240226507f,   0.055503279f,
                                  0.00961800385f, 0.00134002964f, 0.000154764071f};
constexpr double exp2_twice[] = {
    0.6931471805599453,     0.24022650695910133,   0.05550410866482174,    0.009618129107593278,
    0.0013333558146378707,  0.0001540353045815513, 1.5252733867797388e-05, 1.3215434775933542e-06,
    1.0178046368139644e-07, 7.073867719740942e-09, 4.4574000402055506e-10};
constexpr Coefficients exp2_coefficients{exp2_single, exp2_twice};

// sinh(x) = x + x^3 P(x^2), |x| <= 1. Relative error 2^-27.2, 2^-56.3.
constexpr double sinh_single[] = {0.166666672f, 0.00833335053f, 0.000198360663f, 2.81743837e-06f};
constexpr double sinh_twice[] = {
    0.16666666666666669,    0.008333333333333139,   0.00019841269841437692, 2.7557319155331865e-06,
    2.5052123399476912e-08, 1.6057240263075854e-10, 7.759314707870601e-13};
constexpr Coefficients sinh_coefficients{sinh_single, sinh_twice};

}  // namespace

ExpArgument reduce_by_ln2(Real x, int offset) {
  bool wide = is_double(x);
  double magic = format_of(x).shift_magic + offset;
  Real shifted = fma(x, log2_of_e, magic);
  Real n = shifted - magic;
  Real r = fma(n, wide ? -0x1.62e42fefa39efp-1 : -0x1.62e43p-1, x);
  r = fma(n, wide ? -0x1.abc9e3b39803fp-56 : 0x1.05c61p-29, r);
  return {r, bits_of(shifted)};
}

Real exp_reduced(Real r) { return fma(fma(polynomial(r, exp_coefficients), r, 1.0), r, 1.0); }

Real expm1_reduced(Real r) { return fma(r * r, polynomial(r, exp_coefficients), r); }

Real scale_twice(Real p, Bits shifted) {
  int mantissa = format_of(p).mantissa;
  Bits half = shift_right(shifted, 1);
  Real first = real_of(shift_left(half, mantissa));
  Real second = real_of(shift_left(shifted - half, mantissa));
  return (p * first) * second;
}

Real power_of_two(Bits shifted, Real like) {
  return real_of(shift_left(shifted, format_of(like).mantissa));
}

namespace {

int twice_bias(Real x) { return 2 * static_cast<int>(format_of(x).bias); }

/// e^x / 2, which does not overflow before sinh and cosh do; x >= 0.
Real half_exp(Real x) {
  auto [r, shifted] = reduce_by_ln2(at_most(x, is_double(x) ? 711 : 90), twice_bias(x) - 1);
  return scale_twice(exp_reduced(r), shifted);
}

Real exp2(Real x) {
  bool wide = is_double(x);
  x = at_most(at_least(x, wide ? -1076 : -151), wide ? 1025 : 129);
  double magic = format_of(x).shift_magic + twice_bias(x);
  Real shifted = x + magic;
  Real r = x - (shifted - magic);
  return scale_twice(fma(polynomial(r, exp2_coefficients), r, 1.0), bits_of(shifted));
}

Real expm1(Real x) {
  bool wide = is_double(x);
  // 2^(n-1) (e^r - 1) + (2^(n-1) - 1/2), doubled at the end, so that n may reach the overflow.
  Real clamped = at_most(at_least(x, wide ? -38 : -18), wide ? 710 : 89);
  auto [r, shifted] = reduce_by_ln2(clamped, static_cast<int>(format_of(x).bias) - 1);
  Real s = power_of_two(shifted, x);
  Real half = fma(s, expm1_reduced(r), s - 0.5);
  return copysign(half + half, x);
}

Real sigmoid(Real x) {
  // e^-|x| never overflows; both signs share the division.
  Real low = at_least(-abs(x), is_double(x) ? -746 : -104);
  auto [r, shifted] = reduce_by_ln2(low, twice_bias(x));
  Real e = scale_twice(exp_reduced(r), shifted);
  return select(x < 0.0, e, 1.0) / (e + 1.0);
}

Real tanh(Real x) {
  // t/(t+2) with t = e^(2|x|) - 1; it rounds to 1 beyond the clamp.
  Real a = at_most(abs(x), is_double(x) ? 19.5 : 9.25);
  auto [r, shifted] = reduce_by_ln2(a + a, static_cast<int>(format_of(x).bias));
  Real s = power_of_two(shifted, x);
  Real t = fma(s, expm1_reduced(r), s - 1.0);
  return copysign(t / (t + 2.0), x);
}

Real sinh(Real x) {
  Real a = abs(x);
  Real z = x * x;
  Real small = fma(a * z, polynomial(z, sinh_coefficients), a);
  Real e = half_exp(a);
  return copysign(select(a < 1.0, small, e - 0.25 / e), x);
}

Real cosh(Real x) {
  Real e = half_exp(abs(x));
  return e + 0.25 / e;
}

}  // namespace

Real exp(Real x) {
  bool wide = is_double(x);
  // Beyond these e^x rounds to 0 and overflows; NaN passes.
  Real clamped = at_most(at_least(x, wide ? -746 : -104), wide ? 710 : 89);
  auto [r, shifted] = reduce_by_ln2(clamped, twice_bias(x));
  return scale_twice(exp_reduced(r), shifted);
}

}  // namespace lanes

llvm::Value* emit_exp(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::exp, x);
}
llvm::Value* emit_exp2(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::exp2, x);
}
llvm::Value* emit_expm1(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::expm1, x);
}
llvm::Value* emit_sigmoid(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::sigmoid, x);
}
llvm::Value* emit_tanh(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::tanh, x);
}
llvm::Value* emit_sinh(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::sinh, x);
}
llvm::Value* emit_cosh(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::cosh, x);
}

}  // namespace tile::cpu
