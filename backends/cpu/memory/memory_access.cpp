// Loads and stores of resolved references: whole vectors, strided and interleaved ones, gathers of
// pixels, patterns of lanes, non-temporal stores, registers.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "backends/cpu/memory/interleaved_access.h"
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/memory/transposed.h"
#include "backends/cpu/values/types.h"

namespace tile::cpu {
namespace {

constexpr int64_t kLine = 64;           // bytes of a cache line
constexpr int64_t kStoresAhead = 1024;  // bytes
constexpr int64_t kMostPicked = 4;      // vectors that are read where lanes pick from them

Key content_key(const Reference& r, const Lanes& lanes, llvm::Value* guard) {
  Key key{static_cast<uint64_t>(r.stride),
          key_of(r.moved),
          key_of(r.offsets),
          key_of(guard),
          r.lanes ? lanes.width : 1,
          static_cast<uint64_t>(r.uniform.constant)};
  for (auto [atom, factor] : r.uniform.terms) {
    key.push_back(atom.index());
    key.push_back(static_cast<uint64_t>(factor));
  }
  return key;
}

}  // namespace

llvm::Value* Memory::address(nest::BufferId id, const Form& offset) {
  auto size = static_cast<int64_t>(byte_size(buffer(id).type));
  return indices_.pointer(bases_[id], offset, size);
}

void Memory::prefetch(nest::BufferId id, const Form& offset, bool to_write) {
  llvm::Value* p = address(id, offset);
  constexpr uint32_t kNearest = 3, kData = 1;
  ir_.CreateIntrinsic(
      llvm::Intrinsic::prefetch, {p->getType()},
      {p, ir_.getInt32(to_write ? 1 : 0), ir_.getInt32(kNearest), ir_.getInt32(kData)});
}

llvm::Value* Memory::load(const Reference& r, const Lanes& lanes) {
  if (r.cell >= 0) return load_cell(r);
  llvm::Value* guard = r.lanes ? lanes.mask : lanes.any;
  for (llvm::Value* known_under : {guard, static_cast<llvm::Value*>(nullptr)}) {
    Key key = content_key(r, lanes, known_under);
    if (llvm::Value* known = scopes_.content(r.buffer, key)) return known;
  }
  llvm::Type* element = memory_type(ir_.getContext(), buffer(r.buffer).type);
  unsigned component = 0, count = group_size(r, component);
  if (count > 1) {
    llvm::Value* part = load_component(r, count, component, lanes);
    scopes_.remember(r.buffer, content_key(r, lanes, guard), part);
    return part;
  }
  if (llvm::Value* part = load_pattern(r, element, lanes)) {
    scopes_.remember(r.buffer, content_key(r, lanes, guard), part);
    return part;
  }
  bool clamped = r.clamped && lanes.mask == nullptr && lanes.any == nullptr;
  bool apart = r.offsets != nullptr || std::abs(r.stride) > kMostComponents;
  bool whole = apart && !clamped && gathers_whole(element, r.pixel);
  llvm::Value* p = whole ? nullptr : pointer(r, lanes);
  llvm::Value* value = nullptr;
  if (whole) {
    value = gather_component(r, lanes);
  } else if (!r.lanes) {
    value = ir_.CreateAlignedLoad(element, p, llvm::Align(byte_size(buffer(r.buffer).type)));
  } else if (clamped) {
    value = load_clamped(r, element, lanes.width);
  } else if (r.offsets != nullptr) {
    value = load_gathered(ir_, element, p, r.offsets, lanes);
  } else {
    value = load_strided(ir_, element, p, r.stride, lanes);
  }
  if (buffer(r.buffer).type == DType::bool_) {
    value = ir_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
  }
  scopes_.remember(r.buffer, content_key(r, lanes, guard), value);
  return value;
}

// One lane's elements of all the references.
llvm::Value* Memory::load_row(const Reference& first, unsigned lane, unsigned count,
                              const Lanes& lanes) {
  Lanes every;
  every.width = lanes.width;
  llvm::Type* element = memory_type(ir_.getContext(), buffer(first.buffer).type);
  unsigned width = std::bit_ceil(count);
  auto* type = llvm::FixedVectorType::get(element, width);
  llvm::Value* p = pointer(at_lane(first, lane), every);
  if (lanes.count() > lane) return load_block(ir_, element, p, count);
  if (lanes.leading > 0) return llvm::PoisonValue::get(type);
  llvm::SmallVector<llvm::Constant*> wanted;
  for (unsigned i = 0; i < width; ++i) wanted.push_back(ir_.getInt1(i < count));
  llvm::Value* on = ir_.CreateVectorSplat(width, ir_.CreateExtractElement(lanes.mask, lane));
  if (count < width) on = ir_.CreateAnd(on, llvm::ConstantVector::get(wanted));
  llvm::Align align(byte_size(buffer(first.buffer).type));
  return load_masked(ir_, type, p, on, align);
}

void Memory::read_transposed(const Reference& first, unsigned count, const Lanes& lanes) {
  bool apart = first.cell < 0 && first.offsets == nullptr && first.moved == nullptr &&
               std::abs(first.stride) > kMostComponents;
  llvm::Type* element = memory_type(ir_.getContext(), buffer(first.buffer).type);
  if (!apart || gathers_whole(element, first.pixel)) return;
  if (buffer(first.buffer).type == DType::bool_) return;
  std::vector<llvm::Value*> rows;
  for (unsigned l = 0; l < lanes.width; ++l) rows.push_back(load_row(first, l, count, lanes));
  std::vector<llvm::Value*> columns = transposed(ir_, rows, count);
  Reference r = first;
  for (llvm::Value* column : columns) {
    scopes_.remember(r.buffer, content_key(r, lanes, lanes.mask), column);
    ++r.uniform.constant;
  }
}

unsigned Memory::group_size(const Reference& r, unsigned& component) const {
  bool regular = r.cell < 0 && r.stride > 1 && r.stride <= kMostComponents && r.moved == nullptr &&
                 r.offsets == nullptr;
  if (!regular || buffer(r.buffer).type == DType::bool_) return 0;
  if (!whole_groups(r, r.stride)) return 0;
  component = static_cast<unsigned>(floor_mod(r.uniform.constant, r.stride));
  return static_cast<unsigned>(r.stride);
}

// Whether the buffer is dense and has whole groups of so many elements, so that they end inside it,
// and the reference is a constant's distance from one's beginning.
bool Memory::whole_groups(const Reference& r, int64_t count) const {
  const nest::Buffer& b = buffer(r.buffer);
  int64_t dense = 1;
  for (size_t d = b.shape.size(); d-- > 0;) {
    if (b.strides[d] != dense && b.shape[d] != 1) return false;
    bool known = d > 0 || !b.extent;
    if (known) dense = checked_mul(dense, b.shape[d]);
  }
  return dense % count == 0 &&
         std::all_of(r.uniform.terms.begin(), r.uniform.terms.end(),
                     [&](const auto& term) { return term.second % count == 0; });
}

// Known places not far from each other: all between them is read at once, for all the patterns that
// pick from the same groups of elements, and lanes pick theirs. Null: gather.
llvm::Value* Memory::load_pattern(const Reference& r, llvm::Type* element, const Lanes& lanes) {
  unsigned on = lanes.count();
  bool known = !r.pattern.empty() && r.moved == nullptr && on > 0;
  if (!known || buffer(r.buffer).type == DType::bool_) return nullptr;
  auto [least, most] = std::minmax_element(r.pattern.begin(), r.pattern.begin() + on);
  int64_t apart = 0, before = 0, span = *most - *least + 1;
  for (unsigned l = 0; l < on; ++l) apart = gcd(apart, r.pattern[l] - *least);
  Reference block = r;
  block.pattern.clear();
  block.offsets = nullptr;
  block.stride = 1;
  block.uniform.constant += *least;
  if (apart > 1 && whole_groups(block, apart)) {
    before = floor_mod(block.uniform.constant, apart);
    span += apart - 1;
  }
  if (span > kMostPicked * static_cast<int64_t>(lanes.width)) return nullptr;
  block.uniform.constant -= before;
  Key key = content_key(block, lanes, nullptr);
  key.insert(key.end(), {static_cast<uint64_t>(span), 'b'});
  llvm::Value* all = scopes_.content(r.buffer, key);
  if (all == nullptr) {
    Lanes every = lanes;
    every.any = nullptr;
    all = load_block(ir_, element, pointer(block, every), static_cast<unsigned>(span));
    scopes_.remember(r.buffer, key, all);
  }
  llvm::SmallVector<int> picks;
  for (unsigned l = 0; l < lanes.width; ++l) {
    int64_t offset = r.pattern[l < on ? l : 0];
    picks.push_back(static_cast<int>(offset - *least + before));
  }
  return ir_.CreateShuffleVector(all, picks);
}

// The group is read once for all of its components.
llvm::Value* Memory::read_group(const Reference& first, unsigned count, const Lanes& lanes) {
  Key key = content_key(first, lanes, lanes.mask);
  key.push_back('g');
  if (llvm::Value* known = scopes_.content(first.buffer, key)) return known;
  llvm::Type* element = memory_type(ir_.getContext(), buffer(first.buffer).type);
  llvm::Value* group = load_interleaved(ir_, element, pointer(first, lanes), count, lanes);
  scopes_.remember(first.buffer, key, group);
  return group;
}

llvm::Value* Memory::load_component(const Reference& r, unsigned count, unsigned component,
                                    const Lanes& lanes) {
  Reference first = r;
  first.uniform.constant -= component;
  llvm::Type* element = memory_type(ir_.getContext(), buffer(r.buffer).type);
  return component_of(ir_, read_group(first, count, lanes), element, count, component, lanes.width);
}

llvm::Value* Memory::load_pixels(const Reference& r, unsigned count, const Lanes& lanes) {
  llvm::Type* element = memory_type(ir_.getContext(), buffer(r.buffer).type);
  llvm::Value* group = read_group(r, count, lanes);
  return ir_.CreateBitCast(group, llvm::FixedVectorType::get(element, count * lanes.width));
}

// A pixel somewhere for each lane, read once for all of its components.
llvm::Value* Memory::gather_component(const Reference& r, const Lanes& lanes) {
  Reference first = r;
  first.uniform.constant -= r.component;
  Key key = content_key(first, lanes, lanes.mask);
  key.push_back('p');
  llvm::Type* element = memory_type(ir_.getContext(), buffer(r.buffer).type);
  llvm::Value* group = scopes_.content(r.buffer, key);
  if (group == nullptr) {
    llvm::Value* offsets =
        r.offsets != nullptr ? r.offsets : lane_offsets(ir_, r.stride, lanes.width);
    group = gather_interleaved(ir_, element, pointer(first, lanes), offsets, r.pixel, lanes);
    scopes_.remember(r.buffer, key, group);
  }
  return component_of(ir_, group, element, r.pixel, r.component, lanes.width);
}

void Memory::store_components(const Reference& r, std::span<llvm::Value* const> values,
                              const Lanes& lanes) {
  store_whole(r, interleaved_of(ir_, values), static_cast<unsigned>(values.size()), lanes);
}

void Memory::store_pixels(const Reference& r, llvm::Value* pixels, unsigned count,
                          const Lanes& lanes) {
  llvm::Type* element = memory_type(ir_.getContext(), buffer(r.buffer).type);
  llvm::Value* group = ir_.CreateBitCast(pixels, interleaved_type(element, count, lanes.width));
  store_whole(r, group, count, lanes);
}

void Memory::store_whole(const Reference& r, llvm::Value* group, unsigned count,
                         const Lanes& lanes) {
  llvm::Type* element = memory_type(ir_.getContext(), buffer(r.buffer).type);
  Lanes unguarded = lanes, wide = lanes;
  unguarded.any = nullptr;
  wide.width = lanes.width * count;
  Reference contiguous = r;
  contiguous.stride = 1;
  llvm::Value* p = pointer(r, unguarded);
  if (fills_lines(contiguous, wide)) {
    store_non_temporal(contiguous, group, p);
  } else {
    store_interleaved(ir_, group, element, p, count, lanes);
  }
  scopes_.forget(r.buffer);
}

void Memory::store(const Reference& r, llvm::Value* value, const Lanes& lanes) {
  if (r.cell >= 0) {
    store_cell(r, value, lanes);
    return;
  }
  llvm::Type* element = memory_type(ir_.getContext(), buffer(r.buffer).type);
  if (buffer(r.buffer).type == DType::bool_) {
    value = ir_.CreateZExt(value, with_lanes(element, r.lanes ? lanes.width : 1));
  }
  Lanes unguarded = lanes;
  unguarded.any = nullptr;
  llvm::Value* p = pointer(r, unguarded);
  if (!r.lanes) {
    ir_.CreateAlignedStore(value, p, llvm::Align(byte_size(buffer(r.buffer).type)));
  } else if (fills_lines(r, lanes)) {
    store_non_temporal(r, value, p);
  } else if (r.offsets != nullptr) {
    store_scattered(ir_, value, p, r.offsets, lanes);
  } else {
    // Rows that begin inside lines cannot go past the caches: their lines are asked for early.
    auto size = static_cast<int64_t>(byte_size(buffer(r.buffer).type));
    bool whole = r.stride == 1 && r.moved == nullptr && lanes.width * size >= kLine;
    if (place(r.buffer).non_temporal && whole) {
      prefetch(r.buffer, r.uniform + Form{{}, kStoresAhead / size}, true);
    }
    store_strided(ir_, value, p, r.stride, lanes);
  }
  scopes_.forget(r.buffer);
}

// Whole cache lines, if the buffer begins with one.
bool Memory::fills_lines(const Reference& r, const Lanes& lanes) const {
  auto size = static_cast<int64_t>(byte_size(buffer(r.buffer).type));
  auto whole = [&](int64_t elements) { return elements % (kLine / size) == 0; };
  return place(r.buffer).non_temporal && r.stride == 1 && r.moved == nullptr &&
         r.offsets == nullptr && lanes.mask == nullptr && whole(lanes.width) &&
         whole(r.uniform.constant) &&
         std::all_of(r.uniform.terms.begin(), r.uniform.terms.end(),
                     [&](const auto& term) { return whole(term.second); });
}

// Non-temporal where the buffer turns out to be aligned: unaligned ones do not exist.
void Memory::store_non_temporal(const Reference& r, llvm::Value* value, llvm::Value* pointer) {
  has_non_temporal_stores_ = true;
  llvm::Value* base = bases_[r.buffer];
  llvm::Value* aligned = scopes_.once_at(0, {key_of(base), 'l'}, [&] {
    llvm::Value* address = ir_.CreatePtrToInt(base, ir_.getInt64Ty());
    return ir_.CreateICmpEQ(ir_.CreateAnd(address, kLine - 1), ir_.getInt64(0));
  });
  llvm::LLVMContext& context = ir_.getContext();
  llvm::Function* function = ir_.GetInsertBlock()->getParent();
  auto* past = llvm::BasicBlock::Create(context, "", function);
  auto* through = llvm::BasicBlock::Create(context, "", function);
  auto* after = llvm::BasicBlock::Create(context, "", function);
  ir_.CreateCondBr(aligned, past, through);
  ir_.SetInsertPoint(past);
  llvm::Metadata* one = llvm::ConstantAsMetadata::get(ir_.getInt32(1));
  ir_.CreateAlignedStore(value, pointer, llvm::Align(kLine))
      ->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(context, one));
  ir_.CreateBr(after);
  ir_.SetInsertPoint(through);
  ir_.CreateAlignedStore(value, pointer, llvm::Align(byte_size(buffer(r.buffer).type)));
  ir_.CreateBr(after);
  ir_.SetInsertPoint(after);
}

llvm::AllocaInst* Memory::cell(const Reference& r) {
  llvm::AllocaInst*& at = cells_[{r.buffer, r.cell}];
  if (at == nullptr) {
    llvm::IRBuilderBase::InsertPointGuard guard(ir_);
    llvm::BasicBlock& entry = ir_.GetInsertBlock()->getParent()->getEntryBlock();
    ir_.SetInsertPoint(&entry, entry.begin());
    llvm::Type* element = register_type(ir_.getContext(), buffer(r.buffer).type);
    auto width = static_cast<unsigned>(place(r.buffer).cells.width);
    at = ir_.CreateAlloca(with_lanes(element, width));
    all_cells_.push_back(at);
  }
  return at;
}

llvm::Value* Memory::load_cell(const Reference& r) {
  Key key{static_cast<uint64_t>(r.cell)};
  llvm::Value* whole = scopes_.content(r.buffer, key);
  if (whole == nullptr) {
    llvm::AllocaInst* at = cell(r);
    whole = ir_.CreateLoad(at->getAllocatedType(), at);
    scopes_.remember(r.buffer, key, whole);
  }
  if (r.element < 0) return whole;
  return ir_.CreateExtractElement(whole, static_cast<uint64_t>(r.element));
}

void Memory::store_cell(const Reference& r, llvm::Value* value, const Lanes& lanes) {
  Reference all = r;
  all.element = -1;
  if (r.element >= 0) {
    value = ir_.CreateInsertElement(load_cell(all), value, static_cast<uint64_t>(r.element));
  } else if (r.lanes && lanes.mask != nullptr &&
             !(place(r.buffer).cells.loose && lanes.leading > 0)) {
    value = ir_.CreateSelect(lanes.mask, value, load_cell(all));
  }
  ir_.CreateStore(value, cell(r));
  scopes_.remember(r.buffer, {static_cast<uint64_t>(r.cell)}, value);
  scopes_.changed(r.buffer);
}

// Neighbours are read at once, those past an end are replaced by the element there.
llvm::Value* Memory::load_clamped(const Reference& r, llvm::Type* element, unsigned width) {
  const Reference::Clamped& c = *r.clamped;
  llvm::Value* base = bases_[r.buffer];
  auto size = static_cast<int64_t>(byte_size(buffer(r.buffer).type));
  llvm::Align align(static_cast<uint64_t>(size));
  llvm::Value* position = indices_.value(c.lanes, width);
  llvm::Value *inside = nullptr, *value = nullptr;
  auto past = [&](int64_t end, llvm::CmpInst::Predicate predicate) {
    llvm::Value* bound = ir_.CreateVectorSplat(width, ir_.getInt64(static_cast<uint64_t>(end)));
    llvm::Value* outside = ir_.CreateICmp(predicate, position, bound);
    llvm::Value* in = ir_.CreateNot(outside);
    inside = inside == nullptr ? in : ir_.CreateAnd(inside, in);
    return outside;
  };
  auto at_end = [&](int64_t end) {
    llvm::Value* p = indices_.pointer(base, c.rest + Form{{}, end}, size);
    return ir_.CreateVectorSplat(width, ir_.CreateAlignedLoad(element, p, align));
  };
  llvm::Value* below = c.low ? past(*c.low, llvm::CmpInst::ICMP_SLT) : nullptr;
  llvm::Value* above = c.high ? past(*c.high, llvm::CmpInst::ICMP_SGT) : nullptr;
  llvm::Value* p = indices_.pointer(base, c.rest + c.position, size);
  llvm::Type* type = with_lanes(element, width);
  value = ir_.CreateMaskedLoad(type, p, align, inside, llvm::Constant::getNullValue(type));
  if (below != nullptr) value = ir_.CreateSelect(below, at_end(*c.low), value);
  if (above != nullptr) value = ir_.CreateSelect(above, at_end(*c.high), value);
  return value;
}

}  // namespace tile::cpu
