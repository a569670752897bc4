// Logarithms and the functions made from them: log log2 log1p softplus asinh acosh atanh.
//
// x = 2^e (1 + f) with 1 + f in [2/3, 4/3), by integer arithmetic on the bits; then a polynomial in
// f.

#include "backends/cpu/math/vector_math.h"
#include "backends/cpu/math/vector_math_kernels.h"

namespace tile::cpu {
namespace lanes {
namespace {

constexpr double log2_of_e = 0x1.71547652b82fep+0;

// log(1+f) = f - f^2/2 + f^3 P(f), |f| <= 1/3. Relative error 2^-27.4, 2^-56.3.
constexpr double log_single[] = {0.333332151f, -0.249997973f, 0.200104237f, -0.166805163f,
                                 0.140055388f, -0.12183845f,  0.13986285f,  -0.128935784f};
constexpr double log_twice[] = {
    0.33333333333333287, -0.25000000000013206, 0.20000000000033233, -0.16666666662940172,
    0.14285714279258419, -0.12500000389585397, 0.11111111677329269, -0.09999979222351561,
    0.09090882024585765, -0.0833397487223449,  0.07693080498869283, -0.07130742118935511,
    0.06652930400756248, -0.06391403531527855, 0.06034950485415732, -0.0457089490556457,
    0.04244278988692091, -0.08630461600978676, 0.08379703025752522};
constexpr Coefficients log_coefficients{log_single, log_twice};

/// log(1 + f) - f, the part that is small beside f.
Real log_correction(Real f, Real low) {
  return fma(f * f, fma(polynomial(f, log_coefficients), f, -0.5), low);
}

struct Split {
  Bits fraction;  // the bits of 1 + f
  Bits power;     // the bits of 2^-e
  Bits biased;    // e plus the exponent bias
};

/// Splits the bits of a positive normal number at 2/3.
Split split(Bits bits, Format format, bool wide) {
  int64_t two_thirds = wide ? 0x3fe5555555555555 : 0x3f2aaaab;
  int64_t one = format.bias << format.mantissa;
  Bits shifted = bits - two_thirds;
  Bits exponent = shifted & -(int64_t{1} << format.mantissa);
  return {bits - exponent, one - exponent, shift_right(shifted + one, format.mantissa)};
}

/// A small non-negative integer, less `offset`, as a floating number.
Real to_real(Bits n, Real like, Real offset) {
  if (!is_double(like)) {
    return Real{n.ir, n.ir->CreateSIToFP(n.value, like.value->getType())} - offset;
  }
  // AVX2 has no conversion from 64-bit integers; 2^52 + n has n in its low bits.
  return real_of(n | 0x4330000000000000) - (offset + 0x1p52);
}

/// `finite` where x is positive and finite; else what a logarithm of x is.
Real log_specials(Real x, Real finite) {
  Real r = select(x < infinity, finite, x);
  r = select(x < 0.0, not_a_number, r);
  return select(x == 0.0, -infinity, r);
}

Real log(Real x) {
  auto [f, e] = parts_of(x);
  return log_specials(x, log_of_parts(f, e));
}

Real log2(Real x) {
  auto [f, e] = parts_of(x);
  Real y = f + log_correction(f, constant(x, 0));
  return log_specials(x, fma(y, log2_of_e, e));
}

Real log1p(Real x) { return copysign(log1p_plus(x, constant(x, 0)), x); }

Real softplus(Real x) {
  // max(x, 0) + log(1 + e^-|x|)
  Real tail = log1p_plus(exp(-abs(x)), constant(x, 0));
  return select(x < 0.0, 0.0, x) + tail;
}

/// Where x is so large that x^2 overflows or 1 is lost, log(2x) = log1p(x) + ln2.
Mask is_huge(Real x) { return x > (is_double(x) ? 0x1p60 : 0x1p28); }

Real asinh(Real x) {
  Real a = abs(x);
  Mask huge = is_huge(a);
  Real t = a + (a * a) / (sqrt(fma(a, a, 1.0)) + 1.0);
  Real one = constant(x, 1);
  return copysign(log1p_plus(select(huge, a, t), select(huge, one, 0.0)), x);
}

Real acosh(Real x) {
  Mask huge = is_huge(x);
  Real d = x - 1.0;
  Real t = d + sqrt(fma(d, d, d + d));
  Real one = constant(x, 1);
  Real r = log1p_plus(select(huge, x, t), select(huge, one, 0.0));
  return select(x < 1.0, not_a_number, r);
}

Real atanh(Real x) {
  Real a = abs(x);
  Real t = (a + a) / (1.0 - a);
  return copysign(log1p_plus(t, constant(x, 0)) * 0.5, x);
}

}  // namespace

LogParts parts_of(Real x) {
  Format format = format_of(x);
  double lift = is_double(x) ? 54 : 25;
  Mask tiny = x < format.min_normal;
  Real normal = select(tiny, x * (is_double(x) ? 0x1p54 : 0x1p25), x);
  auto [fraction, power, biased] = split(bits_of(normal), format, is_double(x));
  auto bias = static_cast<double>(format.bias);
  Real offset = select(tiny, constant(x, bias + lift), bias);
  return {real_of(fraction) - 1.0, to_real(biased, x, offset)};
}

Real log_of_parts(Real f, Real e) {
  bool wide = is_double(f);
  Real low = e * (wide ? 0x1.abc9e3b39803fp-56 : -0x1.05c61p-29);
  return fma(e, wide ? 0x1.62e42fefa39efp-1 : 0x1.62e43p-1, f + log_correction(f, low));
}

Real log1p_plus(Real x, Real extra) {
  // 1 + x = 2^e (1 + f) gives f = x 2^-e + (2^-e - 1), one rounding, and no division is needed to
  // recover what 1 + x lost. Where x is large 1 adds nothing and f comes from the bits of x.
  Format format = format_of(x);
  bool wide = is_double(x);
  Real u = x + 1.0;
  auto [fraction, power, biased] = split(bits_of(u), format, wide);
  Real s = real_of(power);
  Real f = select(x > (wide ? 0x1p60 : 0x1p28), real_of(fraction) - 1.0, fma(x, s, s - 1.0));
  Real e = to_real(biased, x, constant(x, static_cast<double>(format.bias)));
  Real r = select(x < infinity, log_of_parts(f, e + extra), x);
  r = select(x == -1.0, -infinity, r);
  return select(x < -1.0, not_a_number, r);
}

}  // namespace lanes

llvm::Value* emit_log(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::log, x);
}
llvm::Value* emit_log2(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::log2, x);
}
llvm::Value* emit_log1p(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::log1p, x);
}
llvm::Value* emit_softplus(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::softplus, x);
}
llvm::Value* emit_asinh(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::asinh, x);
}
llvm::Value* emit_acosh(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::acosh, x);
}
llvm::Value* emit_atanh(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::atanh, x);
}

}  // namespace tile::cpu
