#include "backends/cpu/values/operation.h"

#include <array>

#include "backends/cpu/values/convert.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

using llvm::IRBuilderBase;
using llvm::Value;
using llvm::Intrinsic::ID;

using Unary = Value* (*)(IRBuilderBase&, Value*);
using Binary = Value* (*)(IRBuilderBase&, Value*, Value*);
struct UnaryRow {
  Op op;
  Unary emit;
};
struct BinaryRow {
  Op op;
  Binary emit;
};

Value* zero_like(Value* v) { return llvm::Constant::getNullValue(v->getType()); }

Value* neg(IRBuilderBase& ir, Value* x) { return ir.CreateFNeg(x); }
Value* square(IRBuilderBase& ir, Value* x) { return ir.CreateFMul(x, x); }
Value* ident(IRBuilderBase&, Value* x) { return x; }
Value* add(IRBuilderBase& ir, Value* a, Value* b) { return ir.CreateFAdd(a, b); }
Value* sub(IRBuilderBase& ir, Value* a, Value* b) { return ir.CreateFSub(a, b); }
Value* mul(IRBuilderBase& ir, Value* a, Value* b) { return ir.CreateFMul(a, b); }
Value* div(IRBuilderBase& ir, Value* a, Value* b) { return ir.CreateFDiv(a, b); }

constexpr std::array kFloatUnary{
    UnaryRow{Op::neg, neg},          UnaryRow{Op::abs, emit_abs},
    UnaryRow{Op::acos, emit_acos},   UnaryRow{Op::acosh, emit_acosh},
    UnaryRow{Op::asin, emit_asin},   UnaryRow{Op::asinh, emit_asinh},
    UnaryRow{Op::atan, emit_atan},   UnaryRow{Op::atanh, emit_atanh},
    UnaryRow{Op::ceil, emit_ceil},   UnaryRow{Op::cos, emit_cos},
    UnaryRow{Op::cosh, emit_cosh},   UnaryRow{Op::erf, emit_erf},
    UnaryRow{Op::exp, emit_exp},     UnaryRow{Op::exp2, emit_exp2},
    UnaryRow{Op::expm1, emit_expm1}, UnaryRow{Op::floor, emit_floor},
    UnaryRow{Op::gelu, emit_gelu},   UnaryRow{Op::ident, ident},
    UnaryRow{Op::log, emit_log},     UnaryRow{Op::log1p, emit_log1p},
    UnaryRow{Op::log2, emit_log2},   UnaryRow{Op::reciprocal, emit_reciprocal},
    UnaryRow{Op::relu, emit_relu},   UnaryRow{Op::round, emit_round},
    UnaryRow{Op::rsqrt, emit_rsqrt}, UnaryRow{Op::sigmoid, emit_sigmoid},
    UnaryRow{Op::sign, emit_sign},   UnaryRow{Op::sin, emit_sin},
    UnaryRow{Op::sinh, emit_sinh},   UnaryRow{Op::softplus, emit_softplus},
    UnaryRow{Op::sqrt, emit_sqrt},   UnaryRow{Op::square, square},
    UnaryRow{Op::tan, emit_tan},     UnaryRow{Op::tanh, emit_tanh},
    UnaryRow{Op::trunc, emit_trunc},
};
constexpr std::array kFloatBinary{
    BinaryRow{Op::add, add},      BinaryRow{Op::sub, sub},          BinaryRow{Op::mul, mul},
    BinaryRow{Op::div, div},      BinaryRow{Op::mod, emit_fmod},    BinaryRow{Op::max, emit_max},
    BinaryRow{Op::min, emit_min}, BinaryRow{Op::atan2, emit_atan2}, BinaryRow{Op::pow, emit_pow},
};

Value* emit_float(IRBuilderBase& ir, Op op, std::span<const Operand> x) {
  if (op == Op::fma) {
    return ir.CreateIntrinsic(llvm::Intrinsic::fma, {x[0].value->getType()},
                              {x[0].value, x[1].value, x[2].value});
  }
  if (x.size() == 1) {
    for (const UnaryRow& row : kFloatUnary) {
      if (row.op == op) return row.emit(ir, x[0].value);
    }
  } else {
    for (const BinaryRow& row : kFloatBinary) {
      if (row.op == op) return row.emit(ir, x[0].value, x[1].value);
    }
  }
  throw InternalError("cpu: not an operation on floats");
}

Value* emit_integer_sign(IRBuilderBase& ir, Value* x, bool is_signed) {
  Value* positive = ir.CreateZExt(ir.CreateICmpNE(x, zero_like(x)), x->getType());
  if (!is_signed) return positive;
  return ir.CreateOr(positive, ir.CreateAShr(x, x->getType()->getScalarSizeInBits() - 1));
}

Value* emit_integer_unary(IRBuilderBase& ir, Op op, Value* x, bool is_signed) {
  switch (op) {
    case Op::neg:
      return ir.CreateNeg(x);
    case Op::bit_not:
      return ir.CreateNot(x);
    case Op::abs:
      return is_signed ? ir.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, ir.getFalse()) : x;
    case Op::relu:
      return is_signed ? ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, zero_like(x)) : x;
    case Op::sign:
      return emit_integer_sign(ir, x, is_signed);
    case Op::square:
      return ir.CreateMul(x, x);
    case Op::ident:
    case Op::ceil:
    case Op::floor:
    case Op::round:
    case Op::trunc:
      return x;
    default:
      throw InternalError("cpu: not an operation on integers");
  }
}

Value* emit_integer_binary(IRBuilderBase& ir, Op op, Value* a, Value* b, bool is_signed) {
  switch (op) {
    case Op::add:
      return ir.CreateAdd(a, b);
    case Op::sub:
      return ir.CreateSub(a, b);
    case Op::mul:
      return ir.CreateMul(a, b);
    case Op::div:
      return emit_int_div(ir, a, b, is_signed);
    case Op::mod:
      return emit_int_rem(ir, a, b, is_signed);
    case Op::shl:
      return emit_shift_left(ir, a, b);
    case Op::shr:
      return emit_shift_right(ir, a, b, is_signed);
    case Op::bit_and:
      return ir.CreateAnd(a, b);
    case Op::bit_or:
      return ir.CreateOr(a, b);
    case Op::bit_xor:
      return ir.CreateXor(a, b);
    case Op::max:
      return ir.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, a,
                                      b);
    case Op::min:
      return ir.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, a,
                                      b);
    default:
      throw InternalError("cpu: not an operation on integers");
  }
}

Value* emit_integer(IRBuilderBase& ir, Op op, DType type, std::span<const Operand> x) {
  bool is_signed = is_signed_integer(type);
  if (op == Op::fma) return ir.CreateAdd(ir.CreateMul(x[0].value, x[1].value), x[2].value);
  if (x.size() == 1) return emit_integer_unary(ir, op, x[0].value, is_signed);
  return emit_integer_binary(ir, op, x[0].value, x[1].value, is_signed);
}

struct Predicates {
  llvm::CmpInst::Predicate real, sign, unsign;
};
Predicates predicates_of(Op op) {
  using P = llvm::CmpInst;
  switch (op) {
    case Op::eq:
      return {P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ};
    case Op::ne:
      return {P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE};
    case Op::lt:
      return {P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT};
    case Op::le:
      return {P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE};
    case Op::gt:
      return {P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT};
    default:
      return {P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE};
  }
}

// Narrow floats are compared as f32; everything else as it is.
Value* emit_comparison(IRBuilderBase& ir, Op op, Operand a, Operand b, HalfConversion half) {
  Predicates p = predicates_of(op);
  DType type = a.type;
  if (is_float(type)) {
    DType wide = compute_type(type);
    return ir.CreateFCmp(p.real, emit_convert(ir, a.value, type, wide, half),
                         emit_convert(ir, b.value, type, wide, half));
  }
  return ir.CreateICmp(is_signed_integer(type) ? p.sign : p.unsign, a.value, b.value);
}

Value* emit_predicate(IRBuilderBase& ir, Op op, Operand x, HalfConversion half) {
  if (!is_float(x.type)) {
    return llvm::Constant::getNullValue(emit_truth(ir, x.value, x.type)->getType());
  }
  Value* v = emit_convert(ir, x.value, x.type, compute_type(x.type), half);
  if (op == Op::isnan) return ir.CreateFCmpUNO(v, v);
  return ir.CreateFCmpOEQ(emit_abs(ir, v), llvm::ConstantFP::getInfinity(v->getType()));
}

Value* emit_logical(IRBuilderBase& ir, Op op, std::span<const Operand> x) {
  Value* a = emit_truth(ir, x[0].value, x[0].type);
  if (op == Op::logical_not) return ir.CreateNot(a);
  Value* b = emit_truth(ir, x[1].value, x[1].type);
  return op == Op::logical_and ? ir.CreateAnd(a, b) : ir.CreateOr(a, b);
}

Value* scramble(IRBuilderBase& ir, Value* z) {
  auto number = [&](uint64_t v) { return llvm::ConstantInt::get(z->getType(), v); };
  z = ir.CreateMul(ir.CreateXor(z, ir.CreateLShr(z, 30)), number(0xBF58476D1CE4E5B9u));
  z = ir.CreateMul(ir.CreateXor(z, ir.CreateLShr(z, 27)), number(0x94D049BB133111EBu));
  return ir.CreateXor(z, ir.CreateLShr(z, 31));
}

// The same bits as uniform_bits in core/ir/scalar.h.
Value* emit_uniform(IRBuilderBase& ir, Value* seed, Value* counter) {
  Value* step = llvm::ConstantInt::get(seed->getType(), 0x9E3779B97F4A7C15u);
  Value* first = scramble(ir, ir.CreateAdd(seed, step));
  Value* second = scramble(ir, ir.CreateAdd(first, step));
  Value* mixed = scramble(ir, ir.CreateAdd(ir.CreateMul(counter, step), first));
  Value* bits = ir.CreateLShr(scramble(ir, ir.CreateAdd(mixed, second)), 40);
  auto* lanes = llvm::dyn_cast<llvm::VectorType>(bits->getType());
  auto shaped = [&](llvm::Type* t) {
    return lanes == nullptr ? t : llvm::VectorType::get(t, lanes->getElementCount());
  };
  Value* real =
      ir.CreateSIToFP(ir.CreateTrunc(bits, shaped(ir.getInt32Ty())), shaped(ir.getFloatTy()));
  return ir.CreateFMul(real, llvm::ConstantFP::get(real->getType(), 0x1p-24));
}

}  // namespace

Value* emit_operation(IRBuilderBase& ir, Op op, DType type, std::span<const Operand> x,
                      HalfConversion half) {
  switch (info(op).rule) {
    case TypeRule::casting:
    case TypeRule::casting_like:
      return emit_convert(ir, x[0].value, x[0].type, type, half);
    case TypeRule::comparison:
      return emit_comparison(ir, op, x[0], x[1], half);
    case TypeRule::logical:
      return emit_logical(ir, op, x);
    case TypeRule::predicate:
      return emit_predicate(ir, op, x[0], half);
    case TypeRule::selection:
      return ir.CreateSelect(emit_truth(ir, x[0].value, x[0].type), x[1].value, x[2].value);
    case TypeRule::random:
      return emit_uniform(ir, x[0].value, x[1].value);
    case TypeRule::identity:
      return x[0].value;
    default:
      break;
  }
  return is_float(type) ? emit_float(ir, op, x) : emit_integer(ir, op, type, x);
}

}  // namespace tile::cpu
