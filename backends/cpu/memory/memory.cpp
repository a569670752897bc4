// Where an access lies: its address, the steps between its lanes, its cell.
#include "backends/cpu/memory/memory.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "backends/cpu/memory/interleaved_access.h"
#include "backends/cpu/values/types.h"
#include "core/simplify/simplify.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {

void Memory::begin(llvm::Value* arguments, llvm::Value* workspace, llvm::Value* scratch) {
  for (size_t i = 0; i < nest_.buffers.size(); ++i) {
    const Place& p = plan_.places[i];
    llvm::Value* base = nullptr;
    if (p.home == Home::argument) {
      llvm::Value* at = ir_.CreateConstGEP1_64(ir_.getPtrTy(), arguments, i);
      base = ir_.CreateLoad(ir_.getPtrTy(), at, nest_.buffers[i].name);
    } else if (p.home != Home::cells && p.home != Home::tiles) {
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

// Of a buffer whose extent is given at launch.
int64_t Memory::most_bytes(const nest::Buffer& b) const {
  Ranges ranges;
  for (const nest::Parameter& p : nest_.parameters) ranges.set(p.name, p.lo, p.hi);
  std::optional<int64_t> most = constant_range(*b.extent, ranges).hi;
  if (!most) return std::numeric_limits<int64_t>::max();
  Shape row(b.shape.begin() + 1, b.shape.end());
  return checked_mul(checked_mul(*most, element_count(row)),
                     static_cast<int64_t>(byte_size(b.type)));
}

// Offsets inside a buffer below 2 GiB fit 32 bits, which halves the work of a gather; what
// overflows on the way to them cancels.
llvm::Type* Memory::offset_type(nest::BufferId id) {
  const nest::Buffer& b = buffer(id);
  if (b.extent && most_bytes(b) > std::numeric_limits<int32_t>::max()) return ir_.getInt64Ty();
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
  if (b.extent && b.shape.size() == 1) return;  // the only dimension's extent is not known
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
  llvm::Value* p = indices_.pointer(bases_[r.buffer], r.uniform, size);
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

}  // namespace tile::cpu
