// Conversions that the hardware does not have, or has only on some targets.

#include <cmath>

#include "backends/cpu/math/vector_math.h"
#include "backends/cpu/math/vector_math_kernels.h"

namespace tile::cpu {
namespace {

using lanes::Bits;
using lanes::Mask;
using lanes::Real;
using llvm::IRBuilderBase;
using llvm::Value;

/// A truncated, in-range x as integers of `width` bits.
Value* convert(IRBuilderBase& ir, Value* x, unsigned width, bool is_signed) {
  // Narrow integers go by way of i32, which every target converts to.
  llvm::Type* type = lanes::same_shape(x->getType(), ir.getIntNTy(width < 32 ? 32 : width));
  Value* n = is_signed || width < 32 ? ir.CreateFPToSI(x, type) : ir.CreateFPToUI(x, type);
  return ir.CreateTrunc(n, lanes::same_shape(x->getType(), ir.getIntNTy(width)));
}

/// x rounded to float so that a second rounding to at most 22 bits is right: towards zero, with the
/// last bit set where inexact.
Real to_float_odd(Real x) {
  if (!lanes::is_double(x)) return x;
  IRBuilderBase& ir = *x.ir;
  Real nearest = lanes::narrow(x);
  Real back = lanes::widen(nearest);
  Bits bits = lanes::bits_of(nearest);
  Mask away = lanes::abs(back) > lanes::abs(x);
  Mask inexact = (back < x) | (back > x);
  Bits below{&ir, ir.CreateSub(bits.value, ir.CreateZExt(away.value, bits.value->getType()))};
  Bits odd{&ir, ir.CreateZExt(inexact.value, bits.value->getType())};
  return lanes::real_of(below | odd);
}

Value* to_i16(Bits bits) {
  return bits.ir->CreateTrunc(bits.value,
                              lanes::same_shape(bits.value->getType(), bits.ir->getInt16Ty()));
}
Bits widened(IRBuilderBase& ir, Value* bits) {
  return {&ir, ir.CreateZExt(bits, lanes::same_shape(bits->getType(), ir.getInt32Ty()))};
}

Mask at_least(Bits a, int64_t b) {
  return {a.ir, a.ir->CreateICmpUGE(a.value, lanes::constant(a, b).value)};
}

/// The 16 bits of IEEE half nearest to a float, by integer arithmetic.
Bits half_bits(Real x) {
  Bits bits = lanes::bits_of(x);
  Bits magnitude = bits & 0x7fffffff;
  Bits sign = lanes::shift_right(bits, 16) & 0x8000;
  Bits even = lanes::shift_right(magnitude, 13) & 1;
  Bits normal = lanes::shift_right(magnitude - 0x38000000 + 0xfff + even, 13);
  // Adding 1/2 rounds to a multiple of 2^-24, the subnormals' unit.
  Bits subnormal = lanes::bits_of(lanes::abs(x) + 0.5) - 0x3f000000;
  Bits nan = (lanes::shift_right(magnitude, 13) & 0x3ff) | 0x7e00;
  Bits r = lanes::select(at_least(magnitude, 0x38800000), normal, subnormal);
  r = lanes::select(at_least(magnitude, 0x477ff000), lanes::constant(r, 0x7c00), r);
  return lanes::select(at_least(magnitude, 0x7f800001), nan, r) | sign;
}

/// A half's bits, in 32-bit lanes, as float.
Real half_value(Bits half) {
  Bits magnitude = half & 0x7fff;
  Real scaled = lanes::real_of(lanes::shift_left(magnitude, 13)) * 0x1p112;
  Bits bits = lanes::bits_of(scaled);
  bits = lanes::select(at_least(magnitude, 0x7c00), bits | 0x7f800000, bits);
  bits = lanes::select(at_least(magnitude, 0x7c01), bits | 0x7fc00000, bits);
  return lanes::real_of(bits | lanes::shift_left(half & 0x8000, 16));
}

/// The bits of a float as those of the f8 nearest to it.
Bits f8_bits(Real x, const F8Format& f) {
  int dropped = 23 - f.mantissa, rebias = 127 - f.bias;
  Bits bits = lanes::bits_of(x);
  Bits magnitude = bits & 0x7fffffff;
  Bits sign = lanes::shift_right(bits, 24) & 0x80;
  Bits even = lanes::shift_right(magnitude, dropped) & 1;
  Bits normal = lanes::shift_right(
      magnitude - (int64_t{rebias} << 23) + ((int64_t{1} << (dropped - 1)) - 1) + even, dropped);
  // Adding the power of two whose last bit is the subnormals' unit rounds to multiples of it.
  int power = 127 + (1 - f.bias - f.mantissa) + 23;
  Real unit = lanes::real_of(lanes::constant(bits, int64_t{power} << 23));
  Bits subnormal = lanes::bits_of(lanes::abs(x) + unit) - (int64_t{power} << 23);
  Bits r = lanes::select(at_least(magnitude, int64_t{rebias + 1} << 23), normal, subnormal);
  int beyond = f.infinity != 0 ? f.infinity : f.nan;
  r = lanes::select(at_least(r, beyond), lanes::constant(r, beyond), r);
  r = lanes::select(at_least(magnitude, 0x7f800001), lanes::constant(r, f.nan), r);
  return r | sign;
}

/// An f8's bits, in 32-bit lanes, as float.
Real f8_value(Bits f8, const F8Format& f) {
  Bits magnitude = f8 & 0x7f;
  Real scaled =
      lanes::real_of(lanes::shift_left(magnitude, 23 - f.mantissa)) * std::ldexp(1.0, 127 - f.bias);
  Bits bits = lanes::bits_of(scaled);
  if (f.infinity != 0) {
    bits = lanes::select(at_least(magnitude, f.infinity), bits | 0x7f800000, bits);
    bits = lanes::select(at_least(magnitude, f.infinity + 1), bits | 0x7fc00000, bits);
  } else {
    bits = lanes::select(at_least(magnitude, f.nan), bits | 0x7fc00000, bits);
  }
  return lanes::real_of(bits | lanes::shift_left(f8 & 0x80, 24));
}

}  // namespace

Value* emit_float_to_int(IRBuilderBase& ir, Value* x, unsigned width, bool is_signed) {
  IRBuilderBase::FastMathFlagGuard guard(ir);
  ir.clearFastMathFlags();
  Real v{&ir, x};
  Real number = lanes::select(lanes::either_nan(v, v), 0.0, v);
  int bits = static_cast<int>(width) - (is_signed ? 1 : 0);
  double end = std::ldexp(1.0, bits);
  Real bounded = lanes::at_least(number, is_signed ? -end : 0.0);
  if (bits <= lanes::format_of(v).mantissa) {
    return convert(ir, lanes::at_most(bounded, end - 1).value, width, is_signed);
  }
  // The largest integer is not a number of this format: choose it where it is passed.
  Mask fits = bounded < end;
  Value* n = convert(ir, lanes::select(fits, bounded, 0.0).value, width, is_signed);
  llvm::APInt largest =
      is_signed ? llvm::APInt::getSignedMaxValue(width) : llvm::APInt::getMaxValue(width);
  return ir.CreateSelect(fits.value, n, llvm::ConstantInt::get(n->getType(), largest));
}

Value* emit_bf16_from_float(IRBuilderBase& ir, Value* x) {
  IRBuilderBase::FastMathFlagGuard guard(ir);
  ir.clearFastMathFlags();
  Real v = to_float_odd({&ir, x});
  Bits bits = lanes::bits_of(v);
  Bits high = lanes::shift_right(bits, 16);
  Bits rounded = lanes::shift_right(bits + 0x7fff + (high & 1), 16);
  return to_i16(lanes::select(lanes::either_nan(v, v), high | 0x40, rounded));
}

Value* emit_float_from_bf16(IRBuilderBase& ir, Value* bits) {
  return lanes::real_of(lanes::shift_left(widened(ir, bits), 16)).value;
}

Value* emit_f8_from_float(IRBuilderBase& ir, Value* x, const F8Format& format) {
  IRBuilderBase::FastMathFlagGuard guard(ir);
  ir.clearFastMathFlags();
  Bits bits = f8_bits(to_float_odd({&ir, x}), format);
  return ir.CreateTrunc(bits.value, lanes::same_shape(x->getType(), ir.getInt8Ty()));
}

Value* emit_float_from_f8(IRBuilderBase& ir, Value* bits, const F8Format& format) {
  IRBuilderBase::FastMathFlagGuard guard(ir);
  ir.clearFastMathFlags();
  return f8_value(widened(ir, bits), format).value;
}

Value* emit_f16_from_float(IRBuilderBase& ir, Value* x, HalfConversion how) {
  IRBuilderBase::FastMathFlagGuard guard(ir);
  ir.clearFastMathFlags();
  Real v = to_float_odd({&ir, x});
  if (how == HalfConversion::Integer) return to_i16(half_bits(v));
  Value* half = ir.CreateFPTrunc(v.value, lanes::same_shape(x->getType(), ir.getHalfTy()));
  return ir.CreateBitCast(half, lanes::same_shape(x->getType(), ir.getInt16Ty()));
}

Value* emit_float_from_f16(IRBuilderBase& ir, Value* bits, HalfConversion how) {
  IRBuilderBase::FastMathFlagGuard guard(ir);
  ir.clearFastMathFlags();
  if (how == HalfConversion::Integer) return half_value(widened(ir, bits)).value;
  Value* half = ir.CreateBitCast(bits, lanes::same_shape(bits->getType(), ir.getHalfTy()));
  return ir.CreateFPExt(half, lanes::same_shape(bits->getType(), ir.getFloatTy()));
}

}  // namespace tile::cpu
