#include "backends/cpu/values/dot_products.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <array>

#include "backends/cpu/values/types.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

using llvm::IRBuilderBase;
using llvm::Value;
using llvm::Intrinsic::ID;

constexpr unsigned kNarrowest = 4;  // lanes of a 128-bit register

unsigned lanes_of(Value* v) {
  auto* lanes = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return lanes == nullptr ? 1 : lanes->getNumElements();
}
llvm::Type* like(Value* v, llvm::Type* element) { return with_lanes(element, lanes_of(v)); }

Value* pack(IRBuilderBase& ir, std::span<const Operand> x) {
  Value* packed = nullptr;
  unsigned shift = 0;
  for (const Operand& element : x) {
    Value* wide = ir.CreateZExt(element.value, like(element.value, ir.getInt32Ty()));
    if (shift > 0) wide = ir.CreateShl(wide, shift);
    packed = packed == nullptr ? wide : ir.CreateOr(packed, wide);
    shift += static_cast<unsigned>(bit_width(element.type));
  }
  return packed;
}

// Element number `at` of `bits` bits, as a number of 32.
Value* packed_element(IRBuilderBase& ir, Value* x, unsigned at, unsigned bits, bool is_signed) {
  unsigned above = 32 - bits * (at + 1);
  if (above > 0) x = ir.CreateShl(x, above);
  return is_signed ? ir.CreateAShr(x, 32 - bits) : ir.CreateLShr(x, 32 - bits);
}

Value* bf16_step_by_step(IRBuilderBase& ir, Value* a, Value* b, Value* sum) {
  llvm::Type* real = like(a, ir.getFloatTy());
  auto element = [&](Value* x, bool high) {
    Value* bits = high ? ir.CreateAnd(x, 0xffff0000U) : ir.CreateShl(x, 16);
    return ir.CreateBitCast(bits, real);
  };
  for (bool high : {true, false}) {
    sum =
        ir.CreateIntrinsic(llvm::Intrinsic::fma, {real}, {element(a, high), element(b, high), sum});
  }
  return sum;
}

Value* integers_step_by_step(IRBuilderBase& ir, Op op, Value* a, Value* b, Value* sum) {
  bool bytes = op == Op::dot4_u8i8;
  unsigned bits = bytes ? 8 : 16;
  for (unsigned i = 0; i < 32 / bits; ++i) {
    Value* left = packed_element(ir, a, i, bits, !bytes);
    sum = ir.CreateAdd(sum, ir.CreateMul(left, packed_element(ir, b, i, bits, true)));
  }
  return sum;
}

ID instruction(Op op, unsigned lanes) {
  namespace I = llvm::Intrinsic;
  size_t width = lanes == 4 ? 0 : lanes == 8 ? 1 : 2;
  constexpr std::array kBf16{I::x86_avx512bf16_dpbf16ps_128, I::x86_avx512bf16_dpbf16ps_256,
                             I::x86_avx512bf16_dpbf16ps_512};
  constexpr std::array kWords{I::x86_avx512_vpdpwssd_128, I::x86_avx512_vpdpwssd_256,
                              I::x86_avx512_vpdpwssd_512};
  constexpr std::array kBytes{I::x86_avx512_vpdpbusd_128, I::x86_avx512_vpdpbusd_256,
                              I::x86_avx512_vpdpbusd_512};
  if (op == Op::dot2_bf16) return kBf16[width];
  return op == Op::dot2_i16 ? kWords[width] : kBytes[width];
}

// `width` lanes of x from `first` on; lanes beyond its end are anything.
Value* part(IRBuilderBase& ir, Value* x, unsigned first, unsigned width) {
  unsigned lanes = lanes_of(x);
  if (first == 0 && lanes == width) return x;
  llvm::SmallVector<int> from;
  for (unsigned i = first; i < first + width; ++i) {
    from.push_back(i < lanes ? static_cast<int>(i) : -1);
  }
  return ir.CreateShuffleVector(x, from);
}

Value* one_instruction(IRBuilderBase& ir, Op op, Value* a, Value* b, Value* sum) {
  unsigned lanes = lanes_of(sum);
  if (op == Op::dot2_bf16) {
    llvm::Type* pairs = with_lanes(llvm::Type::getBFloatTy(ir.getContext()), 2 * lanes);
    a = ir.CreateBitCast(a, pairs);
    b = ir.CreateBitCast(b, pairs);
  }
  return ir.CreateIntrinsic(instruction(op, lanes), {}, {sum, a, b});
}

// By instructions of at most `widest` lanes.
Value* dot(IRBuilderBase& ir, Op op, Value* a, Value* b, Value* sum, unsigned widest) {
  unsigned lanes = lanes_of(sum);
  unsigned width = kNarrowest;
  while (width < lanes && width < widest) width *= 2;
  if (width == lanes) return one_instruction(ir, op, a, b, sum);
  llvm::SmallVector<Value*> parts;
  for (unsigned first = 0; first < lanes; first += width) {
    parts.push_back(one_instruction(ir, op, part(ir, a, first, width), part(ir, b, first, width),
                                    part(ir, sum, first, width)));
  }
  while (parts.size() > 1) {
    if (parts.size() % 2 != 0) parts.push_back(parts.back());
    for (size_t i = 0; i < parts.size() / 2; ++i) {
      llvm::SmallVector<int> all(2 * lanes_of(parts[2 * i]));
      for (size_t l = 0; l < all.size(); ++l) all[l] = static_cast<int>(l);
      parts[i] = ir.CreateShuffleVector(parts[2 * i], parts[2 * i + 1], all);
    }
    parts.resize(parts.size() / 2);
  }
  return part(ir, parts[0], 0, lanes);
}

}  // namespace

DotInstructions dot_instructions(const llvm::MCSubtargetInfo& features) {
  DotInstructions dots;
  bool any_width = features.checkFeatures("+avx512vl");
  if (any_width && features.checkFeatures("+avx512bf16")) dots.bf16 = 16;
  if (features.checkFeatures("+avxvnni")) dots.integer = 8;
  if (any_width && features.checkFeatures("+avx512vnni")) dots.integer = 16;
  return dots;
}

Value* emit_packed(IRBuilderBase& ir, Op op, std::span<const Operand> x,
                   const DotInstructions& dots) {
  if (op == Op::pack2 || op == Op::pack4) return pack(ir, x);
  Value *a = x[0].value, *b = x[1].value, *sum = x[2].value;
  unsigned widest = op == Op::dot2_bf16 ? dots.bf16 : dots.integer;
  if (widest > 0 && lanes_of(sum) > 1) return dot(ir, op, a, b, sum, widest);
  if (op == Op::dot2_bf16) return bf16_step_by_step(ir, a, b, sum);
  return integers_step_by_step(ir, op, a, b, sum);
}

}  // namespace tile::cpu
