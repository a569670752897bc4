// Integer quotients, remainders and shifts that never trap.

#include "backends/cpu/math/vector_math.h"
#include "backends/cpu/math/vector_math_lanes.h"

namespace tile::cpu {
namespace {

using llvm::IRBuilderBase;
using llvm::Value;

llvm::Constant* integer(Value* like, int64_t v) {
  return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(v), true);
}

/// The splat constant divisor for which the code generator multiplies instead.
bool is_plain_divisor(Value* b) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(b);
  if (!constant) return false;
  llvm::Constant* scalar = b->getType()->isVectorTy() ? constant->getSplatValue() : constant;
  auto* number = llvm::dyn_cast_or_null<llvm::ConstantInt>(scalar);
  return number && !number->isZero() && !number->isMinusOne();
}

Value* hardware_quotient(IRBuilderBase& ir, Value* a, Value* b, bool is_signed) {
  return is_signed ? ir.CreateSDiv(a, b) : ir.CreateUDiv(a, b);
}

/// x86 has no vector division of integers. The rounded floating quotient truncates to the exact one
/// when the format holds twice the integers' bits, less a few: then no quotient that is not an
/// integer rounds to one.
Value* floating_quotient(IRBuilderBase& ir, Value* a, Value* b, bool is_signed) {
  llvm::Type* type = a->getType();
  bool wide = type->getScalarSizeInBits() > 16;
  llvm::Type* real = lanes::same_shape(type, wide ? ir.getDoubleTy() : ir.getFloatTy());
  if (is_signed) {
    Value* q = ir.CreateFDiv(ir.CreateSIToFP(a, real), ir.CreateSIToFP(b, real));
    return ir.CreateFPToSI(q, type);
  }
  Value* q = ir.CreateFDiv(ir.CreateUIToFP(a, real), ir.CreateUIToFP(b, real));
  return ir.CreateFPToUI(q, type);
}

}  // namespace

Value* emit_int_div(IRBuilderBase& ir, Value* a, Value* b, bool is_signed) {
  IRBuilderBase::FastMathFlagGuard guard(ir);
  ir.clearFastMathFlags();
  if (is_plain_divisor(b)) return hardware_quotient(ir, a, b, is_signed);
  Value* one = integer(b, 1);
  Value* zero_divisor = ir.CreateICmpEQ(b, integer(b, 0));
  Value* minus_one = is_signed ? ir.CreateICmpEQ(b, integer(b, -1)) : nullptr;
  Value* unsafe = is_signed ? ir.CreateOr(zero_divisor, minus_one) : zero_divisor;
  Value* divisor = ir.CreateSelect(unsafe, one, b);
  bool by_floats = a->getType()->isVectorTy() && a->getType()->getScalarSizeInBits() <= 32;
  Value* q = by_floats ? floating_quotient(ir, a, divisor, is_signed)
                       : hardware_quotient(ir, a, divisor, is_signed);
  if (minus_one) q = ir.CreateSelect(minus_one, ir.CreateNeg(a), q);
  return ir.CreateSelect(zero_divisor, integer(a, 0), q);
}

Value* emit_int_rem(IRBuilderBase& ir, Value* a, Value* b, bool is_signed) {
  if (is_plain_divisor(b)) return is_signed ? ir.CreateSRem(a, b) : ir.CreateURem(a, b);
  Value* q = emit_int_div(ir, a, b, is_signed);
  Value* r = ir.CreateSub(a, ir.CreateMul(q, b));
  return ir.CreateSelect(ir.CreateICmpEQ(b, integer(b, 0)), integer(a, 0), r);
}

Value* emit_shift_left(IRBuilderBase& ir, Value* a, Value* amount) {
  Value* inside = ir.CreateICmpULT(amount, integer(a, a->getType()->getScalarSizeInBits()));
  return ir.CreateSelect(inside, ir.CreateShl(a, amount), integer(a, 0));
}

Value* emit_shift_right(IRBuilderBase& ir, Value* a, Value* amount, bool is_signed) {
  unsigned width = a->getType()->getScalarSizeInBits();
  Value* inside = ir.CreateICmpULT(amount, integer(a, width));
  if (!is_signed) return ir.CreateSelect(inside, ir.CreateLShr(a, amount), integer(a, 0));
  return ir.CreateAShr(a, ir.CreateSelect(inside, amount, integer(a, width - 1)));
}

}  // namespace tile::cpu
