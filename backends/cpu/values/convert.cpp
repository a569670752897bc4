#include "backends/cpu/values/convert.h"

#include "backends/cpu/values/types.h"

namespace tile::cpu {
namespace {

llvm::Type* like(llvm::Value* value, llvm::Type* element) {
  auto* lanes = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return with_lanes(element, lanes == nullptr ? 1 : lanes->getNumElements());
}

bool is_narrow_float(DType t) { return is_float(t) && bit_width(t) < 32; }

F8Format f8_format(DType t) { return t == DType::f8e4m3 ? kF8E4M3 : kF8E5M2; }

llvm::Value* widen(llvm::IRBuilderBase& ir, llvm::Value* bits, DType from, HalfConversion half) {
  if (is_f8(from)) return emit_float_from_f8(ir, bits, f8_format(from));
  return from == DType::f16 ? emit_float_from_f16(ir, bits, half) : emit_float_from_bf16(ir, bits);
}
llvm::Value* narrow(llvm::IRBuilderBase& ir, llvm::Value* x, DType to, HalfConversion half) {
  if (is_f8(to)) return emit_f8_from_float(ir, x, f8_format(to));
  return to == DType::f16 ? emit_f16_from_float(ir, x, half) : emit_bf16_from_float(ir, x);
}

// A 64-bit integer of more than 53 bits, with the bits that a double cannot hold gathered into the
// last one that it can: rounding the double once more, to a narrow float, then rounds correctly.
llvm::Value* gather_low_bits(llvm::IRBuilderBase& ir, llvm::Value* x, bool is_signed) {
  auto number = [&](uint64_t v) { return llvm::ConstantInt::get(x->getType(), v); };
  llvm::Value* size =
      is_signed ? ir.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, ir.getFalse()) : x;
  llvm::Value* low = ir.CreateAnd(x, number(0x7ff));
  llvm::Value* sticky = ir.CreateSelect(ir.CreateICmpNE(low, number(0)), number(0x800), number(0));
  llvm::Value* odd = ir.CreateOr(ir.CreateAnd(x, number(~uint64_t{0x7ff})), sticky);
  return ir.CreateSelect(ir.CreateICmpUGT(size, number(uint64_t{1} << 53)), odd, x);
}

llvm::Value* integer_to_float(llvm::IRBuilderBase& ir, llvm::Value* x, DType from, DType to,
                              HalfConversion half) {
  bool is_signed = is_signed_integer(from);
  if (is_narrow_float(to) && bit_width(from) == 64) x = gather_low_bits(ir, x, is_signed);
  bool single = to == DType::f32 || (is_narrow_float(to) && bit_width(from) <= 16);
  llvm::Type* type = like(x, single ? ir.getFloatTy() : ir.getDoubleTy());
  llvm::Value* f = is_signed ? ir.CreateSIToFP(x, type) : ir.CreateUIToFP(x, type);
  return is_narrow_float(to) ? narrow(ir, f, to, half) : f;
}

llvm::Value* float_to_float(llvm::IRBuilderBase& ir, llvm::Value* x, DType to,
                            HalfConversion half) {
  if (is_narrow_float(to)) return narrow(ir, x, to, half);
  llvm::Type* type = like(x, to == DType::f32 ? ir.getFloatTy() : ir.getDoubleTy());
  return to == DType::f32 ? ir.CreateFPTrunc(x, type) : ir.CreateFPExt(x, type);
}

}  // namespace

llvm::Value* emit_truth(llvm::IRBuilderBase& ir, llvm::Value* value, DType type) {
  if (type == DType::bool_) return value;
  llvm::Value* zero = llvm::Constant::getNullValue(value->getType());
  if (type == DType::f32 || type == DType::f64) return ir.CreateFCmpUNE(value, zero);
  if (is_narrow_float(type)) {
    uint64_t magnitude = (uint64_t{1} << (bit_width(type) - 1)) - 1;
    value = ir.CreateAnd(value, llvm::ConstantInt::get(value->getType(), magnitude));
  }
  return ir.CreateICmpNE(value, zero);
}

llvm::Value* emit_convert(llvm::IRBuilderBase& ir, llvm::Value* value, DType from, DType to,
                          HalfConversion half) {
  if (from == to) return value;
  if (to == DType::bool_) return emit_truth(ir, value, from);
  if (from == DType::bool_) {
    if (is_integer(to))
      return ir.CreateZExt(value, like(value, register_type(ir.getContext(), to)));
    llvm::Value* byte = ir.CreateZExt(value, like(value, ir.getInt8Ty()));
    return integer_to_float(ir, byte, DType::u8, to, half);
  }
  if (is_narrow_float(from)) {
    return emit_convert(ir, widen(ir, value, from, half), DType::f32, to, half);
  }
  if (is_float(from)) {
    if (is_float(to)) return float_to_float(ir, value, to, half);
    return emit_float_to_int(ir, value, static_cast<unsigned>(bit_width(to)),
                             is_signed_integer(to));
  }
  if (is_float(to)) return integer_to_float(ir, value, from, to, half);
  return ir.CreateIntCast(value, like(value, register_type(ir.getContext(), to)),
                          is_signed_integer(from));
}

}  // namespace tile::cpu
