// asin, acos, atan, atan2.

#include "backends/cpu/math/vector_math.h"
#include "backends/cpu/math/vector_math_kernels.h"

namespace tile::cpu {
namespace lanes {
namespace {

constexpr double half_pi = 0x1.921fb54442d18p+0;
constexpr double whole_pi = 0x1.921fb54442d18p+1;

// asin(s) = s + s^3 P(s^2), |s| <= 1/2. Relative error 2^-27.3, 2^-58.7.
constexpr double asin_single[] = {0.166667536f, 0.0749524161f, 0.0454770923f, 0.0241476167f,
                                  0.0422185734f};
constexpr double asin_twice[] = {0.16666666666666763,   0.07499999999970279,  0.04464285717510752,
                                 0.030381942684161396,  0.02237221564662903,  0.01735160031725331,
                                 0.01398095892421902,   0.01139779557471769,  0.01078642412326088,
                                 0.0036834232600408156, 0.021762602463102368, -0.02107606135787052,
                                 0.03267614120594938};
constexpr Coefficients asin_coefficients{asin_single, asin_twice};

// atan(t) = t + t^3 P(t^2), |t| <= 1. Relative error 2^-28.2, 2^-56.9.
constexpr double atan_single[] = {-0.333333284f,   0.199996933f,  -0.142801315f,  0.110602513f,
                                  -0.08818876f,    0.0675963759f, -0.0449473895f, 0.0227611605f,
                                  -0.00742302882f, 0.0011349573f};
constexpr double atan_twice[] = {
    -0.33333333333333093,   0.1999999999995543,    -0.1428571428280203,     0.11111111013645109,
    -0.0909090711914332,    0.07692281185272644,   -0.06666414983973351,    0.05880592467785054,
    -0.052538051464823446,  0.047232919252375154,  -0.042217139140846266,   0.03669344420429517,
    -0.02998543253312046,   0.02208497470304795,   -0.013994817441671043,   0.007263237223003096,
    -0.0029192804461232423, 0.0008434632587679518, -0.00015479252892471358, 1.3488837403729206e-05};
constexpr Coefficients atan_coefficients{atan_single, atan_twice};

Real odd_polynomial(Real x, Real z, const Coefficients& c) {
  return fma(x * z, polynomial(z, c), x);
}

/// asin(s) for s = a (a <= 1/2) or sqrt((1-a)/2), when asin(a) = pi/2 - 2 asin(s); NaN for a > 1.
struct HalfAngle {
  Real angle;
  Mask halved;
};
HalfAngle half_angle(Real a) {
  Mask halved = a > 0.5;
  Real z = select(halved, fma(a, -0.5, 0.5), a * a);
  Real s = select(halved, sqrt(z), a);
  return {odd_polynomial(s, z, asin_coefficients), halved};
}

Real asin(Real x) {
  auto [angle, halved] = half_angle(abs(x));
  return copysign(select(halved, fma(angle, -2.0, half_pi), angle), x);
}

Real acos(Real x) {
  auto [angle, halved] = half_angle(abs(x));
  Mask negative = x < 0.0;
  Real twice = angle + angle;
  Real outer = select(negative, whole_pi - twice, twice);
  return select(halved, outer, half_pi - select(negative, -angle, angle));
}

Real atan(Real x) {
  Real a = abs(x);
  Mask inverted = a > 1.0;
  Real one = constant(x, 1);
  Real t = select(inverted, one, a) / select(inverted, a, one);
  Real p = odd_polynomial(t, t * t, atan_coefficients);
  return copysign(select(inverted, half_pi - p, p), x);
}

Real atan2(Real y, Real x) {
  Real ay = abs(y);
  Real ax = abs(x);
  Mask steep = ay > ax;
  Real low = select(steep, ax, ay);
  Real high = select(steep, ay, ax);
  Real t = low / high;
  t = select(low == infinity, 1.0, t);  // both are infinite
  t = select(high == 0.0, 0.0, t);      // both are zero
  Real p = odd_polynomial(t, t * t, atan_coefficients);
  Real r = select(steep, half_pi - p, p);
  r = select(is_negative(bits_of(x)), whole_pi - r, r);
  return select(either_nan(x, y), x + y, copysign(r, y));
}

}  // namespace
}  // namespace lanes

llvm::Value* emit_asin(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::asin, x);
}
llvm::Value* emit_acos(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::acos, x);
}
llvm::Value* emit_atan(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::atan, x);
}
llvm::Value* emit_atan2(llvm::IRBuilderBase& ir, llvm::Value* y, llvm::Value* x) {
  return lanes::emit(ir, lanes::atan2, y, x);
}

}  // namespace tile::cpu
