#include "backends/cpu/combine.h"

#include <llvm/IR/Intrinsics.h>

#include <limits>

#include "backends/cpu/convert.h"

namespace tile::cpu {
namespace {

using llvm::IRBuilderBase;
using llvm::Value;
using nest::StoreKind;

Op op_of(StoreKind kind) {
  switch (kind) {
    case StoreKind::multiply:
      return Op::mul;
    case StoreKind::max:
      return Op::max;
    case StoreKind::min:
      return Op::min;
    case StoreKind::fma:
      return Op::fma;
    default:
      return Op::add;
  }
}

// The value that leaves any other unchanged: -0 for a sum, since -0 + 0 is 0.
llvm::Constant* neutral(StoreKind kind, DType type, llvm::Type* as) {
  double infinity = std::numeric_limits<double>::infinity();
  unsigned bits = as->getScalarSizeInBits();
  bool is_signed = is_signed_integer(type);
  switch (kind) {
    case StoreKind::multiply:
      return is_float(type) ? llvm::ConstantFP::get(as, 1.0) : llvm::ConstantInt::get(as, 1);
    case StoreKind::max:
      if (is_float(type)) return llvm::ConstantFP::get(as, -infinity);
      return llvm::ConstantInt::get(
          as, is_signed ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getZero(bits));
    case StoreKind::min:
      if (is_float(type)) return llvm::ConstantFP::get(as, infinity);
      return llvm::ConstantInt::get(
          as, is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits));
    default:
      return is_float(type) ? llvm::ConstantFP::get(as, -0.0) : llvm::ConstantInt::get(as, 0);
  }
}

// Combines the halves of a vector until one value is left.
Value* reduce_tree(IRBuilderBase& ir, StoreKind kind, DType type, Value* lanes,
                   HalfConversion half) {
  auto width = llvm::cast<llvm::FixedVectorType>(lanes->getType())->getNumElements();
  for (unsigned n = width / 2; n > 1; n /= 2) {
    llvm::SmallVector<int> low, high;
    for (unsigned i = 0; i < n; ++i) {
      low.push_back(static_cast<int>(i));
      high.push_back(static_cast<int>(n + i));
    }
    Operand sides[2] = {{ir.CreateShuffleVector(lanes, low), type},
                        {ir.CreateShuffleVector(lanes, high), type}};
    lanes = emit_operation(ir, op_of(kind), type, sides, half);
  }
  Operand last[2] = {{ir.CreateExtractElement(lanes, uint64_t{0}), type},
                     {ir.CreateExtractElement(lanes, uint64_t{1}), type}};
  return emit_operation(ir, op_of(kind), type, last, half);
}

// Any order is allowed, so sums and products may reassociate.
Value* reduce(IRBuilderBase& ir, StoreKind kind, DType type, Value* lanes, HalfConversion half) {
  bool adds = kind == StoreKind::add, multiplies = kind == StoreKind::multiply;
  if (!is_float(type) || (!adds && !multiplies)) return reduce_tree(ir, kind, type, lanes, half);
  llvm::IRBuilderBase::FastMathFlagGuard guard(ir);
  llvm::FastMathFlags flags;
  flags.setAllowReassoc();
  ir.setFastMathFlags(flags);
  Value* start = neutral(kind, type, lanes->getType()->getScalarType());
  return adds ? ir.CreateFAddReduce(start, lanes) : ir.CreateFMulReduce(start, lanes);
}

}  // namespace

Value* emit_combine(IRBuilderBase& ir, StoreKind kind, DType type, Value* old, Value* value,
                    Value* factor, HalfConversion half) {
  if (kind == StoreKind::assign) return value;
  DType wide = compute_type(type);
  auto widened = [&](Value* v) { return Operand{emit_convert(ir, v, type, wide, half), wide}; };
  Value* result = nullptr;
  if (kind == StoreKind::fma) {
    Operand operands[3] = {widened(value), widened(factor), widened(old)};
    result = emit_operation(ir, Op::fma, wide, operands, half);
  } else {
    Operand operands[2] = {widened(old), widened(value)};
    result = emit_operation(ir, op_of(kind), wide, operands, half);
  }
  return emit_convert(ir, result, wide, type, half);
}

namespace {

// The values that the lanes add, widened; lanes that are off add nothing. An fma becomes a sum.
Value* lane_terms(IRBuilderBase& ir, StoreKind& kind, DType type, Value* value, Value* factor,
                  Value* mask, HalfConversion half) {
  DType wide = compute_type(type);
  Value* lanes = emit_convert(ir, value, type, wide, half);
  if (kind == StoreKind::fma) {
    Operand factors[2] = {{lanes, wide}, {emit_convert(ir, factor, type, wide, half), wide}};
    lanes = emit_operation(ir, Op::mul, wide, factors, half);
    kind = StoreKind::add;
  }
  if (mask == nullptr) return lanes;
  return ir.CreateSelect(mask, lanes, neutral(kind, wide, lanes->getType()));
}

// The larger or smaller lane, where no NaN matters: one instruction.
Value* larger(IRBuilderBase& ir, StoreKind kind, Value* a, Value* b) {
  Value* first = kind == StoreKind::max ? ir.CreateFCmpOGT(a, b) : ir.CreateFCmpOLT(a, b);
  return ir.CreateSelect(first, a, b);
}

// `lanes` with NaN from the first lane on where `given` has one.
Value* nan_from_first(IRBuilderBase& ir, Value* given, Value* lanes) {
  unsigned width = llvm::cast<llvm::FixedVectorType>(given->getType())->getNumElements();
  Value* bits = ir.CreateBitCast(ir.CreateFCmpUNO(given, given), ir.getIntNTy(width));
  Value* reached = ir.CreateOr(bits, ir.CreateNeg(bits));
  Value* mask = ir.CreateBitCast(reached, llvm::FixedVectorType::get(ir.getInt1Ty(), width));
  return ir.CreateSelect(mask, llvm::ConstantFP::getNaN(given->getType()), lanes);
}

// Each lane combined with all before it, in steps that double the distance.
Value* prefixes(IRBuilderBase& ir, StoreKind kind, DType type, Value* lanes, HalfConversion half) {
  unsigned width = llvm::cast<llvm::FixedVectorType>(lanes->getType())->getNumElements();
  llvm::Constant* nothing = neutral(kind, type, lanes->getType());
  bool extremum = is_float(type) && (kind == StoreKind::max || kind == StoreKind::min);
  Value* given = lanes;
  for (unsigned distance = 1; distance < width; distance *= 2) {
    llvm::SmallVector<int> moved;
    for (unsigned l = 0; l < width; ++l) {
      moved.push_back(static_cast<int>(l < distance ? l : width + l - distance));
    }
    Operand sides[2] = {{ir.CreateShuffleVector(nothing, lanes, moved), type}, {lanes, type}};
    lanes = extremum ? larger(ir, kind, sides[0].value, lanes)
                     : emit_operation(ir, op_of(kind), type, sides, half);
  }
  return extremum ? nan_from_first(ir, given, lanes) : lanes;
}

}  // namespace

RunningLanes emit_running_lanes(IRBuilderBase& ir, StoreKind kind, DType type, RunningLanes before,
                                Value* value, Value* factor, Value* mask, HalfConversion half) {
  DType wide = compute_type(type);
  Value* lanes = lane_terms(ir, kind, type, value, factor, mask, half);
  lanes = prefixes(ir, kind, wide, lanes, half);
  unsigned width = llvm::cast<llvm::FixedVectorType>(lanes->getType())->getNumElements();
  Value* total = ir.CreateExtractElement(lanes, width - 1);
  RunningLanes after;
  after.each = emit_combine(ir, kind, type, before.each, emit_convert(ir, lanes, wide, type, half),
                            nullptr, half);
  after.last = emit_combine(ir, kind, type, before.last, emit_convert(ir, total, wide, type, half),
                            nullptr, half);
  return after;
}

Value* emit_combine_lanes(IRBuilderBase& ir, StoreKind kind, DType type, Value* old, Value* value,
                          Value* factor, Value* mask, HalfConversion half) {
  DType wide = compute_type(type);
  Value* lanes = lane_terms(ir, kind, type, value, factor, mask, half);
  Operand operands[2] = {{emit_convert(ir, old, type, wide, half), wide},
                         {reduce(ir, kind, wide, lanes, half), wide}};
  Value* result = emit_operation(ir, op_of(kind), wide, operands, half);
  return emit_convert(ir, result, wide, type, half);
}

}  // namespace tile::cpu
