// What one or a few instructions do: rounding, roots, extrema, signs.

#include "backends/cpu/vector_math.h"
#include "backends/cpu/vector_math_kernels.h"

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
llvm::Value* emit_max(llvm::IRBuilderBase& ir, llvm::Value* a, llvm::Value* b) {
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
