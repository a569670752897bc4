#include "backends/cpu/memory/lanes.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <vector>

namespace tile::cpu {
namespace {

using llvm::IRBuilderBase;
using llvm::Value;

constexpr int64_t kShuffleStride = 4;

llvm::Align alignment_of(llvm::Type* element) {
  return llvm::Align(element->getScalarSizeInBits() / 8);
}

Value* advanced(IRBuilderBase& ir, llvm::Type* element, Value* pointer, int64_t elements) {
  if (elements == 0) return pointer;
  return ir.CreateGEP(element, pointer, ir.getInt64(static_cast<uint64_t>(elements)));
}

Value* full_mask(IRBuilderBase& ir, const Lanes& lanes) {
  return lanes.mask != nullptr ? lanes.mask : ir.CreateVectorSplat(lanes.width, ir.getTrue());
}

// What inactive lanes of a masked load hold: for floats anything, which leaves the code generator
// its zeroing loads and keeps no register for the lanes. Not zero: the instruction selection of
// LLVM 19 takes the quotient of two lanes known to be zero for zero, and drops the blend that hides
// the NaN.
llvm::Constant* inactive_lanes(llvm::Type* type) {
  if (type->isFPOrFPVectorTy()) return llvm::UndefValue::get(type);
  return llvm::Constant::getNullValue(type);
}

Value* load_contiguous(IRBuilderBase& ir, llvm::Type* element, Value* pointer, Value* mask,
                       unsigned width) {
  auto* type = llvm::FixedVectorType::get(element, width);
  return load_masked(ir, type, pointer, mask, alignment_of(element));
}

// Every stride-th element of one load that ends with the last lane's element.
Value* load_by_shuffle(IRBuilderBase& ir, llvm::Type* element, Value* pointer, int64_t stride,
                       unsigned width) {
  auto step = static_cast<unsigned>(stride);
  Value* all = load_contiguous(ir, element, pointer, nullptr, (width - 1) * step + 1);
  llvm::SmallVector<int> picks;
  for (unsigned l = 0; l < width; ++l) picks.push_back(static_cast<int>(l * step));
  return ir.CreateShuffleVector(all, picks);
}

// Whether constants among what the mask is made of leave the lane off.
bool certainly_off(Value* mask, unsigned lane) {
  if (auto* constant = llvm::dyn_cast<llvm::Constant>(mask)) {
    llvm::Constant* on = constant->getAggregateElement(lane);
    return on != nullptr && on->isNullValue();
  }
  if (auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(mask)) {
    Value* of = shuffle->getOperand(0);
    auto size = llvm::cast<llvm::FixedVectorType>(of->getType())->getNumElements();
    int from = shuffle->getMaskValue(lane);
    return from >= 0 && static_cast<unsigned>(from) < size &&
           certainly_off(of, static_cast<unsigned>(from));
  }
  auto* both = llvm::dyn_cast<llvm::BinaryOperator>(mask);
  return both != nullptr && both->getOpcode() == llvm::Instruction::And &&
         (certainly_off(both->getOperand(0), lane) || certainly_off(both->getOperand(1), lane));
}

struct Span {
  unsigned begin = 0, end = 0;
};

// The runs of blocks of which a lane may be on. A register of which constants leave every lane off
// must not be accessed at all where the mask is no constant: LLVM 19 loses what such a part of the
// mask says on its way to AVX's masked loads, and reads the whole register.
std::vector<Span> spans_on(Value* mask, llvm::FixedVectorType* type) {
  constexpr unsigned kBlock = 128;  // bits: the narrowest register
  unsigned width = type->getNumElements(), bits = type->getScalarSizeInBits();
  unsigned block = std::max(1U, kBlock / bits);
  std::vector<Span> spans;
  for (unsigned begin = 0; begin < width; begin += block) {
    unsigned end = std::min(begin + block, width), lane = begin;
    while (lane < end && certainly_off(mask, lane)) ++lane;
    if (lane == end) continue;
    if (spans.empty() || spans.back().end != begin) spans.push_back({begin, begin});
    spans.back().end = end;
  }
  return spans;
}

// The lanes [begin, end).
Value* part_of(IRBuilderBase& ir, Value* vector, const Span& span) {
  llvm::SmallVector<int> picks;
  for (unsigned l = span.begin; l < span.end; ++l) picks.push_back(static_cast<int>(l));
  return ir.CreateShuffleVector(vector, picks);
}

// `all`, whose lanes of the span are those of the part.
Value* with_part(IRBuilderBase& ir, Value* all, Value* part, const Span& span) {
  unsigned width = llvm::cast<llvm::FixedVectorType>(all->getType())->getNumElements();
  llvm::SmallVector<int> longer, picks;
  for (unsigned l = 0; l < width; ++l) {
    bool inside = l >= span.begin && l < span.end;
    longer.push_back(inside ? static_cast<int>(l - span.begin) : -1);
    picks.push_back(static_cast<int>(inside ? width + l : l));
  }
  return ir.CreateShuffleVector(all, ir.CreateShuffleVector(part, longer), picks);
}

bool is_whole(const std::vector<Span>& spans, llvm::FixedVectorType* type) {
  return spans.size() == 1 && spans[0].begin == 0 && spans[0].end == type->getNumElements();
}

}  // namespace

Value* load_masked(IRBuilderBase& ir, llvm::FixedVectorType* type, Value* pointer, Value* mask,
                   llvm::Align align) {
  if (mask == nullptr) return ir.CreateAlignedLoad(type, pointer, align);
  std::vector<Span> spans = spans_on(mask, type);
  if (llvm::isa<llvm::Constant>(mask) || is_whole(spans, type)) {
    return ir.CreateMaskedLoad(type, pointer, align, mask, inactive_lanes(type));
  }
  llvm::Type* element = type->getElementType();
  Value* all = llvm::PoisonValue::get(type);
  for (const Span& span : spans) {
    auto* narrow = llvm::FixedVectorType::get(element, span.end - span.begin);
    Value* part = ir.CreateMaskedLoad(narrow, advanced(ir, element, pointer, span.begin), align,
                                      part_of(ir, mask, span), inactive_lanes(narrow));
    all = with_part(ir, all, part, span);
  }
  return all;
}

void store_masked(IRBuilderBase& ir, Value* value, Value* pointer, Value* mask, llvm::Align align) {
  if (mask == nullptr) {
    ir.CreateAlignedStore(value, pointer, align);
    return;
  }
  auto* type = llvm::cast<llvm::FixedVectorType>(value->getType());
  std::vector<Span> spans = spans_on(mask, type);
  if (llvm::isa<llvm::Constant>(mask) || is_whole(spans, type)) {
    ir.CreateMaskedStore(value, pointer, align, mask);
    return;
  }
  for (const Span& span : spans) {
    Value* at = advanced(ir, type->getElementType(), pointer, span.begin);
    ir.CreateMaskedStore(part_of(ir, value, span), at, align, part_of(ir, mask, span));
  }
}

Value* lane_offsets(IRBuilderBase& ir, int64_t stride, unsigned width) {
  int64_t limit = std::numeric_limits<int32_t>::max() / (8 * static_cast<int64_t>(width));
  bool narrow = std::abs(stride) < limit;
  llvm::Type* type = narrow ? ir.getInt32Ty() : ir.getInt64Ty();
  llvm::SmallVector<llvm::Constant*> offsets;
  for (unsigned l = 0; l < width; ++l) {
    auto offset = static_cast<uint64_t>(static_cast<int64_t>(l) * stride);
    offsets.push_back(llvm::ConstantInt::get(type, offset, true));
  }
  return llvm::ConstantVector::get(offsets);
}

Value* load_strided(IRBuilderBase& ir, llvm::Type* element, Value* pointer, int64_t stride,
                    const Lanes& lanes) {
  if (stride == 1) return load_contiguous(ir, element, pointer, lanes.mask, lanes.width);
  if (stride == -1) {
    Value* mask = lanes.mask == nullptr ? nullptr : ir.CreateVectorReverse(lanes.mask);
    Value* last = advanced(ir, element, pointer, 1 - static_cast<int64_t>(lanes.width));
    return ir.CreateVectorReverse(load_contiguous(ir, element, last, mask, lanes.width));
  }
  if (lanes.mask == nullptr && stride > 0 && stride <= kShuffleStride) {
    return load_by_shuffle(ir, element, pointer, stride, lanes.width);
  }
  return load_gathered(ir, element, pointer, lane_offsets(ir, stride, lanes.width), lanes);
}

Value* load_block(IRBuilderBase& ir, llvm::Type* element, Value* pointer, unsigned size) {
  unsigned width = std::bit_ceil(size);
  llvm::SmallVector<llvm::Constant*> wanted;
  for (unsigned i = 0; i < width; ++i) wanted.push_back(ir.getInt1(i < size));
  Value* mask = width == size ? nullptr : llvm::ConstantVector::get(wanted);
  return load_contiguous(ir, element, pointer, mask, width);
}

void store_strided(IRBuilderBase& ir, Value* value, Value* pointer, int64_t stride,
                   const Lanes& lanes) {
  llvm::Type* element = value->getType()->getScalarType();
  if (stride != 1 && stride != -1) {
    store_scattered(ir, value, pointer, lane_offsets(ir, stride, lanes.width), lanes);
    return;
  }
  Value* mask = lanes.mask;
  if (stride == -1) {
    pointer = advanced(ir, element, pointer, 1 - static_cast<int64_t>(lanes.width));
    value = ir.CreateVectorReverse(value);
    if (mask != nullptr) mask = ir.CreateVectorReverse(mask);
  }
  store_masked(ir, value, pointer, mask, alignment_of(element));
}

namespace {

// Gathers know 32 bits and more: the aligned words that hold the elements are read, which never
// reach into another page.
Value* gather_narrow(IRBuilderBase& ir, llvm::Type* element, Value* pointer, Value* offsets,
                     const Lanes& lanes) {
  unsigned bits = element->getScalarSizeInBits();
  auto* type = llvm::cast<llvm::FixedVectorType>(offsets->getType());
  auto constant = [&](uint64_t v) { return llvm::ConstantInt::get(type, v); };
  Value* address = ir.CreatePtrToInt(pointer, ir.getInt64Ty());
  Value* past = ir.CreateTrunc(ir.CreateAnd(address, 3), type->getElementType());
  Value* aligned = ir.CreateIntToPtr(ir.CreateAnd(address, ~uint64_t{3}), ir.getPtrTy());
  Value* bytes = bits == 8 ? offsets : ir.CreateShl(offsets, constant(1));
  bytes = ir.CreateAdd(bytes, ir.CreateVectorSplat(lanes.width, past));
  auto* words = llvm::FixedVectorType::get(ir.getInt32Ty(), lanes.width);
  Value* at = ir.CreateGEP(ir.getInt32Ty(), aligned, ir.CreateAShr(bytes, constant(2)));
  Value* read = ir.CreateMaskedGather(words, at, llvm::Align(4), full_mask(ir, lanes),
                                      llvm::Constant::getNullValue(words));
  Value* shift = ir.CreateShl(ir.CreateAnd(bytes, constant(3)), constant(3));
  Value* moved = ir.CreateLShr(read, ir.CreateZExtOrTrunc(shift, words));
  llvm::Type* narrow = llvm::FixedVectorType::get(ir.getIntNTy(bits), lanes.width);
  Value* cut = ir.CreateTrunc(moved, narrow);
  return ir.CreateBitCast(cut, llvm::FixedVectorType::get(element, lanes.width));
}

// Scatters know 32 bits and more; LLVM would take narrower ones apart, with all of their addresses
// in vectors first. The fence has no instruction: it keeps the scheduler from comparing the stores
// of one column with those of all others, which for 64 columns of 64 bytes took it seconds.
void store_one_by_one(IRBuilderBase& ir, Value* value, Value* pointer, Value* offsets,
                      unsigned count) {
  llvm::Type* element = value->getType()->getScalarType();
  for (uint64_t lane = 0; lane < count; ++lane) {
    Value* offset = ir.CreateExtractElement(offsets, lane);
    ir.CreateAlignedStore(ir.CreateExtractElement(value, lane),
                          ir.CreateGEP(element, pointer, offset), alignment_of(element));
  }
  ir.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent, llvm::SyncScope::SingleThread);
}

}  // namespace

Value* load_gathered(IRBuilderBase& ir, llvm::Type* element, Value* pointer, Value* offsets,
                     const Lanes& lanes) {
  if (element->getScalarSizeInBits() < 32) {
    return gather_narrow(ir, element, pointer, offsets, lanes);
  }
  auto* type = llvm::FixedVectorType::get(element, lanes.width);
  return ir.CreateMaskedGather(type, ir.CreateGEP(element, pointer, offsets), alignment_of(element),
                               full_mask(ir, lanes), inactive_lanes(type));
}

void store_scattered(IRBuilderBase& ir, Value* value, Value* pointer, Value* offsets,
                     const Lanes& lanes) {
  llvm::Type* element = value->getType()->getScalarType();
  if (element->getScalarSizeInBits() < 32 && lanes.count() > 0) {
    return store_one_by_one(ir, value, pointer, offsets, lanes.count());
  }
  ir.CreateMaskedScatter(value, ir.CreateGEP(element, pointer, offsets), alignment_of(element),
                         full_mask(ir, lanes));
}

}  // namespace tile::cpu
