#pragma once
// Typed values for writing vector math as expressions. Each value remembers the builder that
// extends it; a scalar and a fixed vector are written the same way, and a double literal becomes a
// splat. No operation carries fast-math flags and none is fused unless fma() is written.

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include <cstdint>
#include <limits>
#include <span>

namespace tile::cpu::lanes {

/// Lanes of float or double.
struct Real {
  llvm::IRBuilderBase* ir;
  llvm::Value* value;
};
/// Lanes of integers.
struct Bits {
  llvm::IRBuilderBase* ir;
  llvm::Value* value;
};
/// Lanes of truth values.
struct Mask {
  llvm::IRBuilderBase* ir;
  llvm::Value* value;
};

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// The layout of the floating format that a value has.
struct Format {
  int mantissa;        // stored fraction bits
  int64_t bias;        // of the exponent
  int64_t sign;        // the sign bit
  double min_normal;   // the smallest normal number
  double shift_magic;  // 1.5 * 2^mantissa: adding it rounds to an integer in the low bits
};
inline bool is_double(llvm::Type* type) { return type->getScalarType()->isDoubleTy(); }
inline bool is_double(Real x) { return is_double(x.value->getType()); }
inline Format format_of(Real x) {
  if (is_double(x)) return {52, 1023, std::numeric_limits<int64_t>::min(), 0x1p-1022, 0x1.8p52};
  return {23, 127, int64_t{1} << 31, 0x1p-126, 0x1.8p23};
}

/// `element` repeated for every lane of `like`.
inline llvm::Type* same_shape(llvm::Type* like, llvm::Type* element) {
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like)) {
    return llvm::FixedVectorType::get(element, vector->getNumElements());
  }
  return element;
}
inline unsigned lane_count(llvm::Type* type) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  return vector ? vector->getNumElements() : 1;
}

inline Real constant(Real like, double v) {
  return {like.ir, llvm::ConstantFP::get(like.value->getType(), v)};
}
inline Bits constant(Bits like, int64_t v) {
  return {like.ir, llvm::ConstantInt::get(like.value->getType(), static_cast<uint64_t>(v), true)};
}

inline Real operator+(Real a, Real b) { return {a.ir, a.ir->CreateFAdd(a.value, b.value)}; }
inline Real operator-(Real a, Real b) { return {a.ir, a.ir->CreateFSub(a.value, b.value)}; }
inline Real operator*(Real a, Real b) { return {a.ir, a.ir->CreateFMul(a.value, b.value)}; }
inline Real operator/(Real a, Real b) { return {a.ir, a.ir->CreateFDiv(a.value, b.value)}; }
inline Real operator-(Real a) { return {a.ir, a.ir->CreateFNeg(a.value)}; }
inline Real operator+(Real a, double b) { return a + constant(a, b); }
inline Real operator-(Real a, double b) { return a - constant(a, b); }
inline Real operator*(Real a, double b) { return a * constant(a, b); }
inline Real operator-(double a, Real b) { return constant(b, a) - b; }
inline Real operator/(double a, Real b) { return constant(b, a) / b; }

/// Ordered comparisons: false where either side is NaN.
inline Mask operator<(Real a, Real b) { return {a.ir, a.ir->CreateFCmpOLT(a.value, b.value)}; }
inline Mask operator>(Real a, Real b) { return {a.ir, a.ir->CreateFCmpOGT(a.value, b.value)}; }
inline Mask operator==(Real a, Real b) { return {a.ir, a.ir->CreateFCmpOEQ(a.value, b.value)}; }
inline Mask operator<(Real a, double b) { return a < constant(a, b); }
inline Mask operator>(Real a, double b) { return a > constant(a, b); }
inline Mask operator==(Real a, double b) { return a == constant(a, b); }
inline Mask either_nan(Real a, Real b) { return {a.ir, a.ir->CreateFCmpUNO(a.value, b.value)}; }

inline Mask operator&(Mask a, Mask b) { return {a.ir, a.ir->CreateAnd(a.value, b.value)}; }
inline Mask operator|(Mask a, Mask b) { return {a.ir, a.ir->CreateOr(a.value, b.value)}; }
inline Mask operator~(Mask a) { return {a.ir, a.ir->CreateNot(a.value)}; }

inline Bits operator+(Bits a, Bits b) { return {a.ir, a.ir->CreateAdd(a.value, b.value)}; }
inline Bits operator-(Bits a, Bits b) { return {a.ir, a.ir->CreateSub(a.value, b.value)}; }
inline Bits operator*(Bits a, Bits b) { return {a.ir, a.ir->CreateMul(a.value, b.value)}; }
inline Bits operator&(Bits a, Bits b) { return {a.ir, a.ir->CreateAnd(a.value, b.value)}; }
inline Bits operator|(Bits a, Bits b) { return {a.ir, a.ir->CreateOr(a.value, b.value)}; }
inline Bits operator^(Bits a, Bits b) { return {a.ir, a.ir->CreateXor(a.value, b.value)}; }
inline Bits operator+(Bits a, int64_t b) { return a + constant(a, b); }
inline Bits operator-(Bits a, int64_t b) { return a - constant(a, b); }
inline Bits operator-(int64_t a, Bits b) { return constant(b, a) - b; }
inline Bits operator&(Bits a, int64_t b) { return a & constant(a, b); }
inline Bits operator|(Bits a, int64_t b) { return a | constant(a, b); }
inline Mask operator==(Bits a, int64_t b) {
  return {a.ir, a.ir->CreateICmpEQ(a.value, constant(a, b).value)};
}
inline Mask is_negative(Bits a) {
  return {a.ir, a.ir->CreateICmpSLT(a.value, constant(a, 0).value)};
}
inline Bits shift_left(Bits a, int64_t n) {
  return {a.ir, a.ir->CreateShl(a.value, constant(a, n).value)};
}
inline Bits shift_right(Bits a, int64_t n) {
  return {a.ir, a.ir->CreateLShr(a.value, constant(a, n).value)};
}

inline Real select(Mask m, Real a, Real b) {
  return {a.ir, a.ir->CreateSelect(m.value, a.value, b.value)};
}
inline Real select(Mask m, Real a, double b) { return select(m, a, constant(a, b)); }
inline Real select(Mask m, double a, Real b) { return select(m, constant(b, a), b); }
inline Bits select(Mask m, Bits a, Bits b) {
  return {a.ir, a.ir->CreateSelect(m.value, a.value, b.value)};
}

/// The bit pattern as integers of the same width, and back.
inline Bits bits_of(Real x) {
  llvm::Type* element = is_double(x) ? x.ir->getInt64Ty() : x.ir->getInt32Ty();
  return {x.ir, x.ir->CreateBitCast(x.value, same_shape(x.value->getType(), element))};
}
inline Real real_of(Bits x) {
  bool wide = x.value->getType()->getScalarSizeInBits() == 64;
  llvm::Type* element = wide ? x.ir->getDoubleTy() : x.ir->getFloatTy();
  return {x.ir, x.ir->CreateBitCast(x.value, same_shape(x.value->getType(), element))};
}

inline Real unary(llvm::Intrinsic::ID id, Real x) {
  return {x.ir, x.ir->CreateUnaryIntrinsic(id, x.value)};
}
inline Real abs(Real x) { return unary(llvm::Intrinsic::fabs, x); }
inline Real sqrt(Real x) { return unary(llvm::Intrinsic::sqrt, x); }
inline Real trunc(Real x) { return unary(llvm::Intrinsic::trunc, x); }
inline Real copysign(Real magnitude, Real sign) {
  return {sign.ir,
          sign.ir->CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude.value, sign.value)};
}
/// a*b + c, rounded once.
inline Real fma(Real a, Real b, Real c) {
  return {a.ir, a.ir->CreateIntrinsic(llvm::Intrinsic::fma, {a.value->getType()},
                                      {a.value, b.value, c.value})};
}
inline Real fma(Real a, double b, Real c) { return fma(a, constant(a, b), c); }
inline Real fma(Real a, Real b, double c) { return fma(a, b, constant(a, c)); }
inline Real fma(Real a, double b, double c) { return fma(a, constant(a, b), constant(a, c)); }

/// max(x, low) and min(x, high) that keep a NaN in x; one instruction each on x86.
inline Real at_least(Real x, double low) {
  Real bound = constant(x, low);
  return select(bound > x, bound, x);
}
inline Real at_most(Real x, double high) {
  Real bound = constant(x, high);
  return select(bound < x, bound, x);
}

inline Real widen(Real x) {
  return {x.ir, x.ir->CreateFPExt(x.value, same_shape(x.value->getType(), x.ir->getDoubleTy()))};
}
inline Real narrow(Real x) {
  return {x.ir, x.ir->CreateFPTrunc(x.value, same_shape(x.value->getType(), x.ir->getFloatTy()))};
}

/// c[0] + c[1]*x + c[2]*x^2 + ... by Horner's rule: the fewest operations, and several vectors are
/// in flight in the loops that use it.
inline Real polynomial(Real x, std::span<const double> c) {
  Real sum = constant(x, c.back());
  for (size_t i = c.size() - 1; i-- > 0;) sum = fma(sum, x, c[i]);
  return sum;
}
/// One polynomial for float and one for double.
struct Coefficients {
  std::span<const double> single;
  std::span<const double> twice;
};
inline Real polynomial(Real x, const Coefficients& c) {
  return polynomial(x, is_double(x) ? c.twice : c.single);
}

/// Wraps `f` on typed values as an emitter without fast-math flags.
template <class F, class... Values>
llvm::Value* emit(llvm::IRBuilderBase& ir, F f, Values*... values) {
  llvm::IRBuilderBase::FastMathFlagGuard guard(ir);
  ir.clearFastMathFlags();
  return f(Real{&ir, values}...).value;
}

}  // namespace tile::cpu::lanes
