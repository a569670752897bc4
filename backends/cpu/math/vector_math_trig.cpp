// sin, cos and tan, right for every argument.
//
// |x| = n*pi/2 + r. Up to a bound pi/2 is subtracted in three fused parts: the first difference is
// exact, the others are rounded relative to what is left. Beyond it, float uses a window of the
// bits of 2/pi (Payne and Hanek) and double the C library, in a block that is rarely entered.

#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/Module.h>

#include <array>

#include "backends/cpu/math/vector_math.h"
#include "backends/cpu/math/vector_math_kernels.h"

namespace tile::cpu {
namespace lanes {
namespace {

// sin(r) = r + r^3 P(r^2), |r| <= pi/4. Relative error 2^-27.5, 2^-57.2.
constexpr double sin_single[] = {-0.166666552f, 0.008332178f, -0.000195172601f};
constexpr double sin_twice[] = {-0.16666666666666632,    0.008333333333322413,
                                -0.00019841269829807336, 2.7557313691645725e-06,
                                -2.5050758062599112e-08, 1.5896792220553329e-10};
constexpr Coefficients sin_coefficients{sin_single, sin_twice};

// cos(r) = 1 - r^2/2 + r^4 P(r^2), |r| <= pi/4. Error 2^-30.9, 2^-60.0.
constexpr double cos_single[] = {0.0416666456f, -0.00138873677f, 2.4438441e-05f};
constexpr double cos_twice[] = {0.0416666666666666,     -0.0013888888888874127,
                                2.4801587289483563e-05, -2.755731435272984e-07,
                                2.087572332740102e-09,  -1.1359650616359991e-11};
constexpr Coefficients cos_coefficients{cos_single, cos_twice};

/// r in [-pi/4, pi/4] (slightly more) and, in its two low bits, the quadrant.
struct Angle {
  Real r;
  Bits quadrant;
};

double direct_limit(Real x) { return is_double(x) ? 0x1p27 : 1e5; }

Angle reduce_directly(Real a) {
  bool wide = is_double(a);
  double magic = format_of(a).shift_magic;
  Real shifted = fma(a, 0x1.45f306dc9c883p-1, magic);
  Real n = shifted - magic;
  Real r = fma(n, wide ? -0x1.921fb54442d18p+0 : -0x1.921fb6p+0, a);
  r = fma(n, wide ? -0x1.1a62633145c07p-54 : 0x1.777a5cp-25, r);
  r = fma(n, wide ? 0x1.f1976b7ed8fbcp-110 : 0x1.ee59dap-50, r);
  return {r, bits_of(shifted)};
}

// The first 256 bits of 2/pi behind the binary point.
constexpr std::array<uint32_t, 8> two_over_pi{0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                              0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561};
// Floats from 2^16 to 2^127 are m * 2^s, m a 24-bit integer, s from -7 to 104.
constexpr int first_scale = -7;
constexpr int scale_count = 112;

/// 32 bits of 2/pi, the first with weight 2^-first.
uint32_t two_over_pi_window(int first) {
  uint32_t window = 0;
  for (int bit = first; bit < first + 32; ++bit) {
    int at = bit - 1;
    uint32_t digit = at < 0 ? 0 : (two_over_pi[at / 32] >> (31 - at % 32)) & 1;
    window = window << 1 | digit;
  }
  return window;
}

/// For each scale s the 96 bits of 2^s * 2/pi from weight 2 downwards: word `word` of the three.
llvm::GlobalVariable* window_table(llvm::Module& module, int word) {
  std::string name = "tile.two_over_pi." + std::to_string(word);
  if (auto* table = module.getGlobalVariable(name, true)) return table;
  std::array<uint32_t, scale_count> windows;
  for (int i = 0; i < scale_count; ++i) {
    windows[i] = two_over_pi_window(first_scale + i - 1 + 32 * word);
  }
  auto* data = llvm::ConstantDataArray::get(module.getContext(), windows);
  auto* table = new llvm::GlobalVariable(module, data->getType(), true,
                                         llvm::GlobalValue::PrivateLinkage, data, name);
  table->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  return table;
}

/// table[index] where `needed`, else 0, as 64-bit lanes.
Bits look_up(llvm::GlobalVariable* table, Bits index, Mask needed) {
  llvm::IRBuilderBase& ir = *index.ir;
  Bits safe = select(needed, index, constant(index, 0));
  llvm::Value* address = ir.CreateInBoundsGEP(ir.getInt32Ty(), table, safe.value);
  llvm::Type* type = same_shape(index.value->getType(), ir.getInt32Ty());
  llvm::Value* word =
      type->isVectorTy()
          ? ir.CreateMaskedGather(type, address, llvm::Align(4), needed.value,
                                  llvm::Constant::getNullValue(type))
          : static_cast<llvm::Value*>(ir.CreateAlignedLoad(type, address, llvm::Align(4)));
  return {&ir, ir.CreateZExt(word, same_shape(type, ir.getInt64Ty()))};
}

/// The reduction of floats of 2^16 and more where `needed`.
Angle reduce_huge(Real a, Mask needed) {
  llvm::IRBuilderBase& ir = *a.ir;
  llvm::Module& module = *ir.GetInsertBlock()->getModule();
  llvm::Type* wide = same_shape(a.value->getType(), ir.getInt64Ty());
  Bits bits = bits_of(a);
  Bits row = shift_right(bits, 23) - (127 + 23 + first_scale);
  Bits narrow_m = (bits & 0x7fffff) | 0x800000;
  Bits m{&ir, ir.CreateZExt(narrow_m.value, wide)};
  // m * 2^s * 2/pi modulo 4 as 2.62 fixed point; what lies above wraps away.
  Bits turns = shift_left(m * look_up(window_table(module, 0), row, needed), 32) +
               m * look_up(window_table(module, 1), row, needed) +
               shift_right(m * look_up(window_table(module, 2), row, needed), 32);
  Bits quadrant = shift_right(turns + (int64_t{1} << 61), 62);
  Bits fraction = turns - shift_left(quadrant, 62);
  llvm::Type* doubles = same_shape(wide, ir.getDoubleTy());
  Real exact{&ir, ir.CreateSIToFP(fraction.value, doubles)};
  return {narrow(exact * 0x1.921fb54442d18p-62),
          {&ir, ir.CreateTrunc(quadrant.value, bits.value->getType())}};
}

/// Adds the rare block for floats beyond the direct limit.
Angle reduce(Real a) {
  Angle direct = reduce_directly(a);
  if (is_double(a)) return direct;
  Mask huge = (a > direct_limit(a)) & (a < infinity);
  auto merged = when_any(huge, {direct.r.value, direct.quadrant.value}, [&] {
    Angle exact = reduce_huge(a, huge);
    return llvm::SmallVector<llvm::Value*, 2>{select(huge, exact.r, direct.r).value,
                                              select(huge, exact.quadrant, direct.quadrant).value};
  });
  return {{a.ir, merged[0]}, {a.ir, merged[1]}};
}

struct SinCos {
  Real sin, cos;
};
SinCos sin_cos(Real r) {
  Real z = r * r;
  return {fma(r * z, polynomial(z, sin_coefficients), r),
          fma(z * z, polynomial(z, cos_coefficients), fma(z, -0.5, 1.0))};
}

/// Flips the sign of y by the sign bit of `flip`.
Real flip_sign(Real y, Bits flip) { return real_of(bits_of(y) ^ (flip & format_of(y).sign)); }
/// Bit 1 of a quadrant moved to the place of the sign.
Bits half_turn(Bits quadrant) {
  return shift_left(quadrant, quadrant.value->getType()->getScalarSizeInBits() - 2);
}

Real sin_reduced(Real x, const Angle& angle) {
  auto [s, c] = sin_cos(angle.r);
  Real y = select((angle.quadrant & 1) == 0, s, c);
  return flip_sign(y, half_turn(angle.quadrant) ^ bits_of(x));
}
Real cos_reduced(Real, const Angle& angle) {
  auto [s, c] = sin_cos(angle.r);
  Real y = select((angle.quadrant & 1) == 0, c, s);
  return flip_sign(y, half_turn(angle.quadrant + 1));
}
Real tan_reduced(Real x, const Angle& angle) {
  auto [s, c] = sin_cos(angle.r);
  Mask even = (angle.quadrant & 1) == 0;
  Real y = select(even, s, c) / select(even, c, s);
  Bits odd = shift_left(angle.quadrant, x.value->getType()->getScalarSizeInBits() - 1);
  return flip_sign(y, odd ^ bits_of(x));
}

/// `reduced` makes the function of x from its angle; `name` is also the C library's.
Real trigonometric(llvm::StringRef name, Real x, Real (*reduced)(Real, const Angle&)) {
  return outlined(name, {x}, [&](llvm::ArrayRef<Real> parameter) {
    Real p = parameter.front();
    Real a = abs(p);
    Real y = reduced(p, reduce(a));
    if (!is_double(p)) return y;
    Mask huge = (a > direct_limit(a)) & (a < infinity);
    auto merged = when_any(huge, {y.value}, [&] {
      return llvm::SmallVector<llvm::Value*, 2>{select(huge, libm_per_lane(name, {p}), y).value};
    });
    return Real{p.ir, merged[0]};
  });
}

Real sin(Real x) { return trigonometric("sin", x, sin_reduced); }
Real cos(Real x) { return trigonometric("cos", x, cos_reduced); }
Real tan(Real x) { return trigonometric("tan", x, tan_reduced); }

}  // namespace
}  // namespace lanes

llvm::Value* emit_sin(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::sin, x);
}
llvm::Value* emit_cos(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::cos, x);
}
llvm::Value* emit_tan(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::tan, x);
}

}  // namespace tile::cpu
