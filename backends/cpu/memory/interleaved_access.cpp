#include "backends/cpu/memory/interleaved_access.h"

namespace tile::cpu {
namespace {

using llvm::IRBuilderBase;
using llvm::Value;

// Bits of a lane's components where they fit an integer that lanes have; else 0.
unsigned packed_bits(llvm::Type* element, unsigned count) {
  unsigned bits = element->getScalarSizeInBits() * count;
  return bits == 16 || bits == 32 || bits == 64 ? bits : 0;
}

llvm::Align alignment_of(llvm::Type* element) {
  return llvm::Align(element->getScalarSizeInBits() / 8);
}

// Each lane's bit once for each of its components.
Value* spread_mask(IRBuilderBase& ir, Value* mask, unsigned count, unsigned width) {
  if (mask == nullptr) return nullptr;
  llvm::SmallVector<int> picks;
  for (unsigned i = 0; i < width * count; ++i) picks.push_back(static_cast<int>(i / count));
  return ir.CreateShuffleVector(mask, picks);
}

}  // namespace

llvm::FixedVectorType* interleaved_type(llvm::Type* element, unsigned count, unsigned width) {
  unsigned bits = packed_bits(element, count);
  if (bits == 0) return llvm::FixedVectorType::get(element, count * width);
  return llvm::FixedVectorType::get(llvm::Type::getIntNTy(element->getContext(), bits), width);
}

namespace {

Value* group_mask(IRBuilderBase& ir, llvm::Type* element, unsigned count, const Lanes& lanes) {
  bool packed = packed_bits(element, count) != 0;
  return packed ? lanes.mask : spread_mask(ir, lanes.mask, count, lanes.width);
}

// Two vectors one after the other; the shorter is lengthened.
Value* joined(IRBuilderBase& ir, Value* a, Value* b) {
  auto size = [](Value* v) {
    return llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements();
  };
  llvm::SmallVector<int> picks;
  for (unsigned i = 0; i < size(a) + size(b); ++i) picks.push_back(static_cast<int>(i));
  if (size(b) < size(a)) {
    llvm::SmallVector<int> longer;
    for (unsigned i = 0; i < size(a); ++i) {
      longer.push_back(i < size(b) ? static_cast<int>(i) : -1);
    }
    b = ir.CreateShuffleVector(b, longer);
  }
  return ir.CreateShuffleVector(a, b, picks);
}

}  // namespace

Value* load_interleaved(IRBuilderBase& ir, llvm::Type* element, Value* pointer, unsigned count,
                        const Lanes& lanes) {
  llvm::FixedVectorType* type = interleaved_type(element, count, lanes.width);
  Value* mask = group_mask(ir, element, count, lanes);
  return load_masked(ir, type, pointer, mask, alignment_of(element));
}

bool gathers_whole(llvm::Type* element, unsigned count) {
  return count > 1 && packed_bits(element, count) >= 32;
}

Value* gather_interleaved(IRBuilderBase& ir, llvm::Type* element, Value* pointer, Value* offsets,
                          unsigned count, const Lanes& lanes) {
  llvm::FixedVectorType* type = interleaved_type(element, count, lanes.width);
  Value* mask =
      lanes.mask != nullptr ? lanes.mask : ir.CreateVectorSplat(lanes.width, ir.getTrue());
  Value* at = ir.CreateGEP(element, pointer, offsets);
  return ir.CreateMaskedGather(type, at, alignment_of(element), mask,
                               llvm::Constant::getNullValue(type));
}

Value* component_of(IRBuilderBase& ir, Value* group, llvm::Type* element, unsigned count,
                    unsigned component, unsigned width) {
  if (packed_bits(element, count) == 0) {
    llvm::SmallVector<int> picks;
    for (unsigned l = 0; l < width; ++l) picks.push_back(static_cast<int>(l * count + component));
    return ir.CreateShuffleVector(group, picks);
  }
  unsigned bits = element->getScalarSizeInBits();
  llvm::Type* narrow = llvm::Type::getIntNTy(ir.getContext(), bits);
  Value* shifted = component == 0 ? group : ir.CreateLShr(group, component * bits);
  Value* cut = ir.CreateTrunc(shifted, llvm::FixedVectorType::get(narrow, width));
  return ir.CreateBitCast(cut, llvm::FixedVectorType::get(element, width));
}

Value* interleaved_of(IRBuilderBase& ir, std::span<Value* const> components) {
  auto* type = llvm::cast<llvm::FixedVectorType>(components[0]->getType());
  llvm::Type* element = type->getElementType();
  auto count = static_cast<unsigned>(components.size());
  unsigned width = type->getNumElements(), bits = element->getScalarSizeInBits();
  llvm::FixedVectorType* whole = interleaved_type(element, count, width);
  if (packed_bits(element, count) == 0) {
    Value* all = components[0];
    for (unsigned c = 1; c < count; ++c) all = joined(ir, all, components[c]);
    llvm::SmallVector<int> picks;
    for (unsigned i = 0; i < count * width; ++i) {
      picks.push_back(static_cast<int>(i % count * width + i / count));
    }
    return ir.CreateShuffleVector(all, picks);
  }
  auto* narrow = llvm::FixedVectorType::get(ir.getIntNTy(bits), width);
  Value* sum = nullptr;
  for (unsigned c = 0; c < count; ++c) {
    Value* wide = ir.CreateZExt(ir.CreateBitCast(components[c], narrow), whole);
    if (c > 0) wide = ir.CreateShl(wide, c * bits);
    sum = sum == nullptr ? wide : ir.CreateOr(sum, wide);
  }
  return sum;
}

void store_interleaved(IRBuilderBase& ir, Value* group, llvm::Type* element, Value* pointer,
                       unsigned count, const Lanes& lanes) {
  Value* mask = group_mask(ir, element, count, lanes);
  store_masked(ir, group, pointer, mask, alignment_of(element));
}

}  // namespace tile::cpu
