#include "backends/cpu/values/combine.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <limits>

#include "backends/cpu/values/convert.h"

namespace tile::cpu {
namespace {

using llvm::IRBuilderBase;
using llvm::Value;
using nest::StoreKind;

constexpr unsigned kPartBits = 128;  // of a vector, inside which lanes move cheaply

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

unsigned width_of(Value* lanes) {
  return llvm::cast<llvm::FixedVectorType>(lanes->getType())->getNumElements();
}

// The lanes of `mask` as the bits of an integer.
Value* mask_bits(IRBuilderBase& ir, Value* mask) {
  return ir.CreateBitCast(mask, ir.getIntNTy(width_of(mask)));
}

// `lanes` with NaN from the first lane on where `given` has one.
Value* nan_from_first(IRBuilderBase& ir, Value* given, Value* lanes, bool mirrored) {
  Value* absent = ir.CreateFCmpUNO(given, given);
  Value* bits = mask_bits(ir, mirrored ? ir.CreateVectorReverse(absent) : absent);
  Value* reached = ir.CreateOr(bits, ir.CreateNeg(bits));
  Value* mask = ir.CreateBitCast(reached, absent->getType());
  if (mirrored) mask = ir.CreateVectorReverse(mask);
  return ir.CreateSelect(mask, llvm::ConstantFP::getNaN(given->getType()), lanes);
}

// Each lane combined with all before it. Inside parts of 128 bits, which move in one cheap
// instruction, in steps that double the distance; then every second part takes what the one before
// it came to, every second pair of parts, and so on. A lane that takes nothing is combined with
// itself where that is no change; sums take zeros, which come for free: -0 + 0 is 0, but the
// running value that it is added to is never -0.
Value* prefixes(IRBuilderBase& ir, StoreKind kind, DType type, Value* lanes, bool mirrored,
                HalfConversion half) {
  unsigned width = width_of(lanes);
  unsigned part = std::min(width, kPartBits / lanes->getType()->getScalarSizeInBits());
  bool repeats = kind == StoreKind::max || kind == StoreKind::min;
  llvm::Constant* nothing = kind == StoreKind::add ? llvm::Constant::getNullValue(lanes->getType())
                                                   : neutral(kind, type, lanes->getType());
  for (unsigned size = 1; size < width; size *= 2) {
    llvm::SmallVector<int> moved;
    for (unsigned l = 0; l < width; ++l) {
      unsigned place = mirrored ? width - 1 - l : l;
      bool takes = size < part ? place % part >= size : place / size % 2 == 1;
      unsigned from = size < part ? place - size : place / size * size - 1;
      if (mirrored) from = width - 1 - from;
      moved.push_back(static_cast<int>(takes ? from : repeats ? l : width + l));
    }
    Value* beside = ir.CreateShuffleVector(lanes, repeats ? lanes : nothing, moved);
    Operand sides[2] = {{beside, type}, {lanes, type}};
    lanes = repeats && is_float(type) ? larger(ir, kind, beside, lanes)
                                      : emit_operation(ir, op_of(kind), type, sides, half);
  }
  return lanes;
}

// The value of the lane that is last in order, on every lane.
Value* total_of(IRBuilderBase& ir, Value* lanes, bool mirrored) {
  unsigned width = width_of(lanes);
  llvm::SmallVector<int> last(width, mirrored ? 0 : static_cast<int>(width) - 1);
  return ir.CreateShuffleVector(lanes, last);
}

// Of maxima and minima of floats: almost never is one a NaN, and what does not look for one takes
// an instruction for each step.
RunningLanes running_extrema(IRBuilderBase& ir, StoreKind kind, DType type, RunningLanes before,
                             Value* given, bool mirrored, HalfConversion half) {
  DType wide = compute_type(type);
  auto widened = [&](Value* v) { return emit_convert(ir, v, type, wide, half); };
  auto narrowed = [&](Value* v) { return emit_convert(ir, v, wide, type, half); };
  llvm::Function* function = ir.GetInsertBlock()->getParent();
  auto* some = llvm::BasicBlock::Create(ir.getContext(), "", function);
  auto* none = llvm::BasicBlock::Create(ir.getContext(), "", function);
  auto* after = llvm::BasicBlock::Create(ir.getContext(), "", function);
  Value *each = widened(before.each), *last = widened(before.last);
  Value* lanes = prefixes(ir, kind, wide, given, mirrored, half);
  Value* absent = mask_bits(ir, ir.CreateFCmpUNO(given, each));
  if (each != last) absent = ir.CreateOr(absent, mask_bits(ir, ir.CreateFCmpUNO(last, last)));
  Value* clean = ir.CreateIsNull(absent);
  ir.CreateCondBr(clean, none, some, llvm::MDBuilder(ir.getContext()).createLikelyBranchWeights());
  ir.SetInsertPoint(none);
  Value* each_clean = narrowed(larger(ir, kind, each, lanes));
  Value* last_clean = narrowed(larger(ir, kind, last, total_of(ir, lanes, mirrored)));
  ir.CreateBr(after);
  ir.SetInsertPoint(some);
  Value* marked = narrowed(nan_from_first(ir, given, lanes, mirrored));
  Value* each_marked = emit_combine(ir, kind, type, before.each, marked, nullptr, half);
  Value* total = total_of(ir, marked, mirrored);
  Value* last_marked = emit_combine(ir, kind, type, before.last, total, nullptr, half);
  some = ir.GetInsertBlock();
  ir.CreateBr(after);
  ir.SetInsertPoint(after);
  auto joined = [&](Value* a, Value* b) {
    llvm::PHINode* phi = ir.CreatePHI(a->getType(), 2);
    phi->addIncoming(a, none);
    phi->addIncoming(b, some);
    return phi;
  };
  return {joined(each_clean, each_marked), joined(last_clean, last_marked)};
}

}  // namespace

RunningLanes emit_running_lanes(IRBuilderBase& ir, StoreKind kind, DType type, RunningLanes before,
                                Value* value, Value* factor, Value* mask, bool mirrored,
                                HalfConversion half) {
  DType wide = compute_type(type);
  Value* lanes = lane_terms(ir, kind, type, value, factor, mask, half);
  if (is_float(type) && (kind == StoreKind::max || kind == StoreKind::min)) {
    return running_extrema(ir, kind, type, before, lanes, mirrored, half);
  }
  lanes = emit_convert(ir, prefixes(ir, kind, wide, lanes, mirrored, half), wide, type, half);
  Value* total = total_of(ir, lanes, mirrored);
  return {emit_combine(ir, kind, type, before.each, lanes, nullptr, half),
          emit_combine(ir, kind, type, before.last, total, nullptr, half)};
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
