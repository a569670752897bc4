#include <llvm/IR/Intrinsics.h>

#include "backends/cpu/values/indices.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

// Divisors that are zero only where the result is unused (code that runs ahead of its guard, lanes
// that are switched off) become 1, and so does -1, whose quotient is a negation.
struct Division {
  llvm::Value* quotient;
  llvm::Value* remainder;
};
Division divide(llvm::IRBuilderBase& ir, llvm::Value* a, llvm::Value* b, bool positive) {
  llvm::Type* type = a->getType();
  llvm::Value* zero = llvm::ConstantInt::get(type, 0);
  llvm::Value* one = llvm::ConstantInt::get(type, 1);
  auto* splat = llvm::dyn_cast<llvm::Constant>(b);
  if (splat != nullptr && splat->getType()->isVectorTy()) splat = splat->getSplatValue();
  auto* known = llvm::dyn_cast_or_null<llvm::ConstantInt>(splat);
  if (positive || (known != nullptr && known->getSExtValue() > 0)) {
    return {ir.CreateSDiv(a, b), ir.CreateSRem(a, b)};
  }
  llvm::Value* negates = ir.CreateICmpEQ(b, llvm::ConstantInt::getAllOnesValue(type));
  llvm::Value* unsafe = ir.CreateOr(negates, ir.CreateICmpEQ(b, zero));
  llvm::Value* divisor = ir.CreateSelect(unsafe, one, b);
  llvm::Value* quotient = ir.CreateSDiv(a, divisor);
  return {ir.CreateSelect(negates, ir.CreateNeg(a), quotient), ir.CreateSRem(a, divisor)};
}

// Whether truncation rounded the quotient up.
llvm::Value* rounded_up(llvm::IRBuilderBase& ir, llvm::Value* remainder, llvm::Value* divisor) {
  llvm::Value* zero = llvm::ConstantInt::get(remainder->getType(), 0);
  llvm::Value* opposite = ir.CreateICmpSLT(ir.CreateXor(remainder, divisor), zero);
  return ir.CreateAnd(ir.CreateICmpNE(remainder, zero), opposite);
}

llvm::Value* extremum(llvm::IRBuilderBase& ir, llvm::Intrinsic::ID id,
                      const std::vector<llvm::Value*>& args) {
  llvm::Value* result = args[0];
  for (size_t i = 1; i < args.size(); ++i) result = ir.CreateBinaryIntrinsic(id, result, args[i]);
  return result;
}

}  // namespace

llvm::Value* emit_index_operation(llvm::IRBuilderBase& ir, ExprKind kind,
                                  const std::vector<llvm::Value*>& args, bool positive) {
  llvm::Type* type = args[0]->getType();
  llvm::Value* zero = llvm::ConstantInt::get(type, 0);
  switch (kind) {
    case ExprKind::mul: {
      llvm::Value* product = args[0];
      for (size_t i = 1; i < args.size(); ++i) product = ir.CreateMul(product, args[i]);
      return product;
    }
    case ExprKind::exact_div:
    case ExprKind::trunc_div:
      return divide(ir, args[0], args[1], positive).quotient;
    case ExprKind::trunc_mod:
      return divide(ir, args[0], args[1], positive).remainder;
    case ExprKind::floor_div: {
      Division d = divide(ir, args[0], args[1], positive);
      return ir.CreateAdd(d.quotient, ir.CreateSExt(rounded_up(ir, d.remainder, args[1]), type));
    }
    case ExprKind::floor_mod: {
      llvm::Value* r = divide(ir, args[0], args[1], positive).remainder;
      return ir.CreateAdd(r, ir.CreateSelect(rounded_up(ir, r, args[1]), args[1], zero));
    }
    case ExprKind::min:
      return extremum(ir, llvm::Intrinsic::smin, args);
    case ExprKind::max:
      return extremum(ir, llvm::Intrinsic::smax, args);
    case ExprKind::less:
      return ir.CreateZExt(ir.CreateICmpSLT(args[0], args[1]), type);
    case ExprKind::equal:
      return ir.CreateZExt(ir.CreateICmpEQ(args[0], args[1]), type);
    case ExprKind::select:
      return ir.CreateSelect(ir.CreateICmpNE(args[0], zero), args[1], args[2]);
    default:
      throw InternalError("cpu: not an index operation");
  }
}

}  // namespace tile::cpu
