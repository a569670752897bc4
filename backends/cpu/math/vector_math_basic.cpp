// What one or a few instructions do: rounding, roots, extrema, signs.

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <array>

#include "backends/cpu/math/vector_math.h"
#include "backends/cpu/math/vector_math_kernels.h"

namespace tile::cpu {
namespace lanes {
namespace {

// x86's maximum gives its second operand for a NaN and for two zeros: the two orders together see
// both operands. Anding (oring) their bits picks +0 (-0), and a NaN survives an or.
Real max(Real a, Real b) {
  Bits p = bits_of(select(a > b, a, b));
  Bits q = bits_of(select(b > a, b, a));
  return select(either_nan(a, b), real_of(p | q), real_of(p & q));
}

Real min(Real a, Real b) {
  return real_of(bits_of(select(a < b, a, b)) | bits_of(select(b < a, b, a)));
}

// Adding +0 makes -0 positive and changes nothing else.
Real sign(Real x) { return select(x > 0.0, 1.0, select(x < 0.0, -1.0, x + 0.0)); }

}  // namespace
}  // namespace lanes

namespace {

constexpr const char* kRangeFlag = "tile.range";

bool has_range(const llvm::IRBuilderBase& ir) {
  return ir.GetInsertBlock()->getModule()->getModuleFlag(kRangeFlag) != nullptr;
}

// The range instruction of vectors of this type, for 128, 256 and 512 bits; 0: none.
llvm::Intrinsic::ID range_of(const llvm::Type* type) {
  namespace I = llvm::Intrinsic;
  constexpr std::array kFloat{I::x86_avx512_mask_range_ps_128, I::x86_avx512_mask_range_ps_256,
                              I::x86_avx512_mask_range_ps_512};
  constexpr std::array kDouble{I::x86_avx512_mask_range_pd_128, I::x86_avx512_mask_range_pd_256,
                               I::x86_avx512_mask_range_pd_512};
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (vector == nullptr) return I::not_intrinsic;
  unsigned bits = vector->getNumElements() * vector->getScalarSizeInBits();
  if (bits != 128 && bits != 256 && bits != 512) return I::not_intrinsic;
  return (vector->getElementType()->isFloatTy() ? kFloat : kDouble)[bits / 256];
}

// The instruction orders zeros, but prefers a number to a NaN: where one operand is NaN so is their
// sum.
llvm::Value* range_max(llvm::IRBuilderBase& ir, llvm::Value* a, llvm::Value* b) {
  constexpr int kLarger = 1, kSignOfResult = 1 << 2, kCurrentRounding = 4;
  llvm::Intrinsic::ID id = range_of(a->getType());
  auto lanes = llvm::cast<llvm::FixedVectorType>(a->getType())->getNumElements();
  llvm::SmallVector<llvm::Value*> operands{
      a, b, ir.getInt32(kLarger | kSignOfResult), llvm::PoisonValue::get(a->getType()),
      llvm::ConstantInt::getAllOnesValue(ir.getIntNTy(std::max(lanes, 8U)))};
  if (lanes * a->getType()->getScalarSizeInBits() == 512) {
    operands.push_back(ir.getInt32(kCurrentRounding));
  }
  llvm::Value* larger = ir.CreateIntrinsic(id, {}, operands);
  return ir.CreateSelect(ir.CreateFCmpUNO(a, b), ir.CreateFAdd(a, b), larger);
}

llvm::Value* intrinsic(llvm::IRBuilderBase& ir, llvm::Intrinsic::ID id, llvm::Value* x) {
  return lanes::emit(ir, [id](lanes::Real v) { return lanes::unary(id, v); }, x);
}

}  // namespace

llvm::Value* emit_abs(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return intrinsic(ir, llvm::Intrinsic::fabs, x);
}
llvm::Value* emit_floor(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return intrinsic(ir, llvm::Intrinsic::floor, x);
}
llvm::Value* emit_ceil(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return intrinsic(ir, llvm::Intrinsic::ceil, x);
}
llvm::Value* emit_trunc(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return intrinsic(ir, llvm::Intrinsic::trunc, x);
}
llvm::Value* emit_round(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return intrinsic(ir, llvm::Intrinsic::roundeven, x);
}
llvm::Value* emit_sqrt(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return intrinsic(ir, llvm::Intrinsic::sqrt, x);
}
llvm::Value* emit_rsqrt(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, [](lanes::Real v) { return 1.0 / lanes::sqrt(v); }, x);
}
llvm::Value* emit_reciprocal(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, [](lanes::Real v) { return 1.0 / v; }, x);
}
void use_range_instructions(llvm::Module& module) {
  module.addModuleFlag(llvm::Module::Warning, kRangeFlag, 1);
}
llvm::Value* emit_max(llvm::IRBuilderBase& ir, llvm::Value* a, llvm::Value* b) {
  bool range = range_of(a->getType()) != llvm::Intrinsic::not_intrinsic && has_range(ir);
  if (range) return range_max(ir, a, b);
  return lanes::emit(ir, lanes::max, a, b);
}
llvm::Value* emit_min(llvm::IRBuilderBase& ir, llvm::Value* a, llvm::Value* b) {
  return lanes::emit(ir, lanes::min, a, b);
}
llvm::Value* emit_sign(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, lanes::sign, x);
}
llvm::Value* emit_relu(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return lanes::emit(ir, [](lanes::Real v) { return lanes::at_least(v, 0.0) + 0.0; }, x);
}

}  // namespace tile::cpu
