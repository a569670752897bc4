// Quotients and remainders of integers whose ranges are small, by multiplication: x86 divides no
// vectors of integers.
#include <llvm/Support/MathExtras.h>

#include "backends/cpu/emit/body_emitter.h"
#include "core/simplify/simplify.h"

namespace tile::cpu {
namespace {

// With a divisor b and the dividend a = k*b + r, a*(1/b) in f32 is exactly between k and k + 1 if
// the reciprocal is raised by 2^-22: that outweighs two roundings of 2^-24 and, as long as b*(k+1)
// <= a + b is below 2^21, does not reach k + 1.
constexpr int64_t kLimit = int64_t{1} << 20;
constexpr double kRaised = 1 + 0x1p-22;

bool divides(const Node& node) {
  return node.kind == NodeKind::operation && (node.op == Op::div || node.op == Op::mod) &&
         is_integer(node.type) && bit_width(node.type) == 32;
}

}  // namespace

// Empty where no integers are divided.
IdVector<NodeId, std::optional<IntegerRange>> BodyEmitter::ranges_of(const Body& body) const {
  if (std::none_of(body.nodes.begin(), body.nodes.end(), divides)) return {};
  Ranges parameters;
  for (const nest::Parameter& p : c_.nest.parameters) parameters.set(p.name, p.lo, p.hi);
  return integer_ranges(body, [&](const Node& node) -> std::optional<IntegerRange> {
    if (node.kind != NodeKind::size) return std::nullopt;
    ConstantRange range = constant_range(node.expr, parameters);
    if (!range.lo || !range.hi) return std::nullopt;
    return IntegerRange{*range.lo, *range.hi};
  });
}

// Null: not one of small positive integers in lanes.
llvm::Value* BodyEmitter::small_quotient(const BodyValues& values, const Node& node) {
  if (!divides(node) || values.ranges.empty()) return nullptr;
  auto at = [&](size_t i) { return node.args[i]; };
  const auto &a = values.ranges[at(0)], &b = values.ranges[at(1)];
  bool small = a && b && a->lo >= 0 && b->lo >= 1 && a->hi <= kLimit && b->hi <= kLimit - a->hi;
  llvm::Value *dividend = values.nodes[at(0)], *divisor = values.nodes[at(1)];
  if (!small || !dividend->getType()->isVectorTy()) return nullptr;
  Key key{key_of(dividend), key_of(divisor), static_cast<uint64_t>(node.op), 'q'};
  return c_.scopes.once(key, [&]() -> llvm::Value* {
    llvm::Value* wide = c_.splat(divisor);
    if (b->lo == b->hi && llvm::isPowerOf2_64(static_cast<uint64_t>(b->lo))) {
      uint64_t power = static_cast<uint64_t>(b->lo);
      return node.op == Op::div ? c_.ir.CreateLShr(dividend, llvm::Log2_64(power))
                                : c_.ir.CreateAnd(dividend, power - 1);
    }
    llvm::Type* reals = llvm::VectorType::get(
        c_.ir.getFloatTy(), llvm::cast<llvm::VectorType>(dividend->getType())->getElementCount());
    llvm::Value* real = c_.ir.CreateSIToFP(dividend, reals);
    llvm::Value* quotient = nullptr;
    if (divisor->getType()->isVectorTy()) {
      quotient = c_.ir.CreateFDiv(real, c_.ir.CreateSIToFP(divisor, reals));
    } else {
      llvm::Value* one = llvm::ConstantFP::get(c_.ir.getFloatTy(), 1.0);
      llvm::Value* raised = llvm::ConstantFP::get(c_.ir.getFloatTy(), kRaised);
      llvm::Value* inverse = c_.ir.CreateFMul(
          c_.ir.CreateFDiv(one, c_.ir.CreateSIToFP(divisor, c_.ir.getFloatTy())), raised);
      quotient = c_.ir.CreateFMul(real, c_.splat(inverse));
    }
    quotient = c_.ir.CreateFPToSI(quotient, dividend->getType());
    if (node.op == Op::div) return quotient;
    return c_.ir.CreateSub(dividend, c_.ir.CreateMul(quotient, wide));
  });
}

}  // namespace tile::cpu
