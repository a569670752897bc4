#include "backends/cpu/memory.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "backends/cpu/groups.h"
#include "backends/cpu/types.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

constexpr int64_t kLine = 64;  // bytes of a cache line
constexpr int64_t kMostComponents = 8;
constexpr int64_t kMostPicked = 4;  // vectors that are read where lanes pick from them

Key content_key(const Reference& r, const Lanes& lanes, llvm::Value* guard) {
  Key key{static_cast<uint64_t>(r.stride),
          key_of(r.moved),
          key_of(r.offsets),
          key_of(guard),
          r.lanes ? lanes.width : 1,
          static_cast<uint64_t>(r.uniform.constant)};
  for (auto [atom, factor] : r.uniform.terms) {
    key.push_back(static_cast<uint64_t>(atom));
    key.push_back(static_cast<uint64_t>(factor));
  }
  return key;
}

}  // namespace

void Memory::begin(llvm::Value* arguments, llvm::Value* workspace, llvm::Value* scratch) {
  for (size_t i = 0; i < nest_.buffers.size(); ++i) {
    const Place& p = plan_.places[i];
    llvm::Value* base = nullptr;
    if (p.home == Home::argument) {
      llvm::Value* at = ir_.CreateConstGEP1_64(ir_.getPtrTy(), arguments, i);
      base = ir_.CreateLoad(ir_.getPtrTy(), at, nest_.buffers[i].name);
    } else if (p.home != Home::cells) {
      llvm::Value* from = p.home == Home::workspace ? workspace : scratch;
      base = ir_.CreateConstGEP1_64(ir_.getInt8Ty(), from, static_cast<uint64_t>(p.offset));
    }
    bases_.push_back(base);
  }
}

Reference Memory::resolve(const nest::Access& access, std::span<const Operand> values,
                          const Lanes& lanes) {
  Reference r;
  r.buffer = access.buffer;
  bool in_cells = place(r.buffer).home == Home::cells;
  std::vector<Form> index;
  Form sum;
  for (size_t d = 0; d < access.index.size(); ++d) {
    int64_t stride = buffer(r.buffer).strides[d];
    int by_value = d < access.values.size() ? access.values[d] : -1;
    if (by_value >= 0) {
      const Operand& value = values[static_cast<size_t>(by_value)];
      add_value_index(r, value.value, value.type, stride, lanes.width);
      continue;
    }
    index.push_back(indices_.form(access.index[d]));
    sum = sum + index.back() * stride;
  }
  if (in_cells) {
    resolve_cell(r, index);
    return r;
  }
  find_pixel(r, access, index);
  if (auto strided = indices_.strided(sum); strided && r.offsets == nullptr) {
    r.uniform = std::move(strided->uniform);
    r.stride = strided->stride;
  } else if (auto pattern = indices_.pattern(sum, lanes.width); pattern && r.offsets == nullptr) {
    r.uniform = std::move(pattern->uniform);
    resolve_pattern(r, std::move(pattern->offsets), lanes);
  } else {
    llvm::Value* offsets = indices_.value(sum, lanes.width);
    if (!offsets->getType()->isVectorTy()) offsets = ir_.CreateVectorSplat(lanes.width, offsets);
    if (r.offsets == nullptr && r.moved == nullptr && index.size() == access.index.size()) {
      r.clamped = find_clamped(access, index);
    }
    llvm::Type* type = with_lanes(offset_type(r.buffer), lanes.width);
    offsets = scopes_.once({key_of(offsets), 'n'}, [&] { return ir_.CreateTrunc(offsets, type); });
    r.offsets = r.offsets == nullptr ? offsets : sum_of(r.offsets, offsets);
  }
  r.lanes = r.stride != 0 || r.offsets != nullptr;
  return r;
}

// A stride where the lanes that are on have one.
void Memory::resolve_pattern(Reference& r, std::vector<int64_t> offsets, const Lanes& lanes) {
  size_t on = lanes.count() > 0 ? lanes.count() : offsets.size();
  int64_t first = offsets[0], stride = on > 1 ? offsets[1] - first : 0;
  r.uniform.constant += first;
  bool even = true;
  for (size_t l = 0; l < offsets.size(); ++l) {
    offsets[l] -= first;
    even = even && (l >= on || offsets[l] == static_cast<int64_t>(l) * stride);
  }
  if (even) {
    r.stride = stride;
    return;
  }
  llvm::Type* type = offset_type(r.buffer);
  std::vector<llvm::Constant*> constants;
  for (int64_t o : offsets) {
    constants.push_back(llvm::ConstantInt::get(type, static_cast<uint64_t>(o), true));
  }
  r.offsets = llvm::ConstantVector::get(constants);
  r.pattern = std::move(offsets);
}

namespace {

// An index inside constant bounds: min(high, max(low, of)).
struct ClampedIndex {
  Expr of;
  std::optional<int64_t> low, high;
};
std::optional<ClampedIndex> clamped_index(Expr e) {
  ClampedIndex clamp;
  while (e.kind() == ExprKind::min || e.kind() == ExprKind::max) {
    std::optional<int64_t>& bound = e.kind() == ExprKind::min ? clamp.high : clamp.low;
    size_t constant = e.args()[0].is_constant() ? 0 : 1;
    if (bound || e.args().size() != 2 || !e.args()[constant].is_constant()) return std::nullopt;
    bound = e.args()[constant].value();
    e = Expr(e.args()[1 - constant]);
  }
  bool some = clamp.low || clamp.high;
  if (!some || (clamp.low && clamp.high && *clamp.low > *clamp.high)) return std::nullopt;
  clamp.of = e;
  return clamp;
}

}  // namespace

// One index of unit stride clamps the lane number; no other index uses it.
std::optional<Reference::Clamped> Memory::find_clamped(const nest::Access& access,
                                                       const std::vector<Form>& index) const {
  Reference::Clamped found;
  bool any = false;
  for (size_t d = 0; d < index.size(); ++d) {
    int64_t stride = buffer(access.buffer).strides[d];
    if (!indices_.uses_lanes(index[d])) {
      found.rest = found.rest + index[d] * stride;
      continue;
    }
    std::optional<ClampedIndex> clamp = clamped_index(access.index[d]);
    if (any || stride != 1 || !clamp) return std::nullopt;
    found.lanes = indices_.form(clamp->of);
    auto strided = indices_.strided(found.lanes);
    if (!strided || strided->stride != 1) return std::nullopt;
    found.position = std::move(strided->uniform);
    found.low = clamp->low;
    found.high = clamp->high;
    any = true;
  }
  return any ? std::optional(std::move(found)) : std::nullopt;
}

// Neighbours are read at once, those past an end are replaced by the element there.
llvm::Value* Memory::load_clamped(const Reference& r, llvm::Type* element, unsigned width) {
  const Reference::Clamped& c = *r.clamped;
  llvm::Value* base = bases_[static_cast<size_t>(r.buffer)];
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

// The planner has made sure that each index is a constant, or whole vectors along the lanes.
void Memory::resolve_cell(Reference& r, const std::vector<Form>& index) const {
  const nest::Buffer& b = buffer(r.buffer);
  const CellLayout& layout = place(r.buffer).cells;
  r.cell = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    int64_t at = index[d].constant, count = b.shape[d];
    if (static_cast<int>(d) == layout.lane_dimension) {
      r.lanes = indices_.uses_lanes(index[d]);
      if (!r.lanes) r.element = floor_mod(at, layout.width);
      at = floor_div(at, layout.width);
      count = ceil_div(count, layout.width);
    }
    r.cell = r.cell * count + at;
  }
}

void Memory::add_value_index(Reference& r, llvm::Value* index, DType type, int64_t stride,
                             unsigned width) {
  bool vector = index->getType()->isVectorTy();
  llvm::Type* wide = vector ? with_lanes(offset_type(r.buffer), width) : ir_.getInt64Ty();
  bool is_signed = is_signed_integer(type);
  Key key{key_of(index), static_cast<uint64_t>(stride), wide->getScalarSizeInBits(), is_signed,
          'm'};
  llvm::Value* offset = scopes_.once(key, [&] {
    llvm::Value* element = ir_.CreateIntCast(index, wide, is_signed);
    auto factor = static_cast<uint64_t>(stride);
    return ir_.CreateMul(element, llvm::ConstantInt::get(wide, factor, true));
  });
  llvm::Value*& sum = vector ? r.offsets : r.moved;
  sum = sum == nullptr ? offset : sum_of(sum, offset);
}

llvm::Value* Memory::sum_of(llvm::Value* a, llvm::Value* b) {
  return scopes_.once({key_of(a), key_of(b), '+'}, [&] { return ir_.CreateAdd(a, b); });
}

// Offsets inside a buffer below 2 GiB fit 32 bits, which halves the work of a gather; what
// overflows on the way to them cancels.
llvm::Type* Memory::offset_type(int id) {
  const nest::Buffer& b = buffer(id);
  auto farthest = static_cast<int64_t>(byte_size(b.type));
  for (size_t d = 0; d < b.shape.size(); ++d) {
    int64_t moves = checked_mul(std::max<int64_t>(b.shape[d] - 1, 0), std::abs(b.strides[d]));
    farthest = checked_add(farthest, checked_mul(moves, static_cast<int64_t>(byte_size(b.type))));
  }
  return farthest <= std::numeric_limits<int32_t>::max() ? ir_.getInt32Ty() : ir_.getInt64Ty();
}

// Whether the last index is a number that names a component of a dense pixel.
void Memory::find_pixel(Reference& r, const nest::Access& access,
                        const std::vector<Form>& index) const {
  const nest::Buffer& b = buffer(r.buffer);
  bool by_value = !access.values.empty() && access.values.back() >= 0;
  if (b.shape.empty() || by_value || !index.back().terms.empty()) return;
  int64_t count = b.shape.back();
  bool dense = count > 1 && count <= kMostComponents && b.strides.back() == 1;
  for (size_t d = 0; d + 1 < b.shape.size(); ++d) dense = dense && b.strides[d] % count == 0;
  int64_t component = index.back().constant;
  if (!dense || component < 0 || component >= count) return;
  r.pixel = static_cast<unsigned>(count);
  r.component = static_cast<unsigned>(component);
}

Reference Memory::at_lane(const Reference& r, unsigned lane) {
  Reference one = r;
  one.clamped.reset();
  one.pattern.clear();
  one.lanes = false;
  one.stride = 0;
  one.uniform.constant += r.stride * static_cast<int64_t>(lane);
  if (r.offsets != nullptr) {
    llvm::Value* offset = ir_.CreateExtractElement(r.offsets, lane);
    offset = ir_.CreateSExt(offset, ir_.getInt64Ty());
    one.moved = r.moved == nullptr ? offset : ir_.CreateAdd(r.moved, offset);
    one.offsets = nullptr;
  }
  return one;
}

// A scalar access where no lane may be on goes to a harmless address instead.
llvm::Value* Memory::pointer(const Reference& r, const Lanes& lanes) {
  auto size = static_cast<int64_t>(byte_size(buffer(r.buffer).type));
  llvm::Value* p = indices_.pointer(bases_[static_cast<size_t>(r.buffer)], r.uniform, size);
  if (r.moved != nullptr) {
    p = ir_.CreateGEP(memory_type(ir_.getContext(), buffer(r.buffer).type), p, r.moved);
  }
  if (r.lanes || lanes.any == nullptr) return p;
  return ir_.CreateSelect(lanes.any, p, somewhere_safe());
}

llvm::Value* Memory::somewhere_safe() {
  llvm::Module* module = ir_.GetInsertBlock()->getModule();
  auto* type = llvm::ArrayType::get(ir_.getInt64Ty(), 1);
  if (llvm::GlobalVariable* known = module->getNamedGlobal("nowhere")) return known;
  return new llvm::GlobalVariable(*module, type, true, llvm::GlobalValue::PrivateLinkage,
                                  llvm::ConstantAggregateZero::get(type), "nowhere");
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
  if (apart && !clamped && gathers_whole(element, r.pixel)) {
    llvm::Value* part = gather_component(r, lanes);
    scopes_.remember(r.buffer, content_key(r, lanes, guard), part);
    return part;
  }
  llvm::Value* p = pointer(r, lanes);
  llvm::Value* value = nullptr;
  if (!r.lanes) {
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
    bool known = d > 0 || b.extent.empty();
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
  llvm::Value* group = load_group(ir_, element, pointer(first, lanes), count, lanes);
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
    group = gather_group(ir_, element, pointer(first, lanes), offsets, r.pixel, lanes);
    scopes_.remember(r.buffer, key, group);
  }
  return component_of(ir_, group, element, r.pixel, r.component, lanes.width);
}

void Memory::store_components(const Reference& r, std::span<llvm::Value* const> values,
                              const Lanes& lanes) {
  store_whole(r, group_of(ir_, values), static_cast<unsigned>(values.size()), lanes);
}

void Memory::store_pixels(const Reference& r, llvm::Value* pixels, unsigned count,
                          const Lanes& lanes) {
  llvm::Type* element = memory_type(ir_.getContext(), buffer(r.buffer).type);
  llvm::Value* group = ir_.CreateBitCast(pixels, group_type(element, count, lanes.width));
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
    store_streamed(contiguous, group, p);
  } else {
    store_group(ir_, group, element, p, count, lanes);
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
    store_streamed(r, value, p);
  } else if (r.offsets != nullptr) {
    store_scattered(ir_, value, p, r.offsets, lanes);
  } else {
    store_strided(ir_, value, p, r.stride, lanes);
  }
  scopes_.forget(r.buffer);
}

// Whole cache lines, if the buffer begins with one.
bool Memory::fills_lines(const Reference& r, const Lanes& lanes) const {
  auto size = static_cast<int64_t>(byte_size(buffer(r.buffer).type));
  auto whole = [&](int64_t elements) { return elements % (kLine / size) == 0; };
  return place(r.buffer).streamed && r.stride == 1 && r.moved == nullptr && r.offsets == nullptr &&
         lanes.mask == nullptr && whole(lanes.width) && whole(r.uniform.constant) &&
         std::all_of(r.uniform.terms.begin(), r.uniform.terms.end(),
                     [&](const auto& term) { return whole(term.second); });
}

// Non-temporal where the buffer turns out to be aligned: unaligned ones do not exist.
void Memory::store_streamed(const Reference& r, llvm::Value* value, llvm::Value* pointer) {
  streams_ = true;
  llvm::Value* base = bases_[static_cast<size_t>(r.buffer)];
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

}  // namespace tile::cpu
