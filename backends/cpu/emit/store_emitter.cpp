#include "backends/cpu/emit/store_emitter.h"

#include <algorithm>

#include "backends/cpu/values/combine.h"

namespace tile::cpu {

namespace {

// LLVM's scheduler relates every store of a basic block to every load.
constexpr int kBlockStores = 64;

bool reads(const nest::Store& s, nest::BufferId buffer) {
  return std::any_of(s.loads.begin(), s.loads.end(),
                     [&](const nest::Access& a) { return a.buffer == buffer; });
}

}  // namespace

// How many statements from `first` on assign all components of one pixel in order.
size_t StoreEmitter::components_from(const nest::Block& statements, size_t first) const {
  const auto* s = std::get_if<nest::Store>(&statements[first].what);
  if (s == nullptr || c_.lanes.width == 1 || s->target.index.empty()) return 0;
  const nest::Buffer& b = c_.buffer(s->target.buffer);
  auto count = static_cast<size_t>(b.shape.back());
  if (count < 2 || first + count > statements.size()) return 0;
  for (size_t i = 0; i < count; ++i) {
    const auto* next = std::get_if<nest::Store>(&statements[first + i].what);
    bool assigns = next != nullptr && next->kind == nest::StoreKind::assign;
    if (!assigns || !same_pixel(s->target, next->target)) return 0;
    if (!next->target.index.back().is_constant(static_cast<int64_t>(i))) return 0;
    if (reads(*next, s->target.buffer)) return 0;
  }
  return count;
}

// Stores the components together where memory lies so; otherwise emits nothing and says false.
bool StoreEmitter::store_together(const nest::Block& statements, size_t first, size_t count) {
  const auto& s = std::get<nest::Store>(statements[first].what);
  Reference target = c_.memory.resolve(s.target, {}, c_.lanes);
  unsigned component = 0;
  if (c_.memory.group_size(target, component) != count || component != 0) return false;
  std::vector<const nest::Store*> parts;
  for (size_t i = 0; i < count; ++i) {
    parts.push_back(&std::get<nest::Store>(statements[first + i].what));
  }
  llvm::Value* pixels = components_.packed_pixels(parts);
  if (pixels != nullptr) {
    c_.memory.store_pixels(target, pixels, static_cast<unsigned>(count), c_.lanes);
  } else {
    Nodes components;
    for (const nest::Store* part : parts) {
      NodeValues nodes = bodies_.values(part->body, part->loads);
      components.push_back(c_.splat(nodes[part->body.results[0]]));
    }
    c_.memory.store_components(target, components, c_.lanes);
  }
  count_store();
  return true;
}

void StoreEmitter::store(const nest::Store& s) {
  prefetches_.prefetch_later_stores(s);
  std::vector<NodeId> indices(s.target.values.begin(), s.target.values.end());
  NodeValues nodes = bodies_.values(s.body, s.loads, indices);
  auto result = [&](size_t i) { return nodes[s.body.results[i]]; };
  llvm::Value* value = result(0);
  llvm::Value* factor = s.kind == nest::StoreKind::fma ? result(1) : nullptr;
  std::vector<Operand> all;
  if (!s.target.values.empty()) {
    for (size_t n = 0; n < nodes.size(); ++n) all.push_back({nodes[n], s.body.nodes[n].type});
  }
  Reference target = c_.memory.resolve(s.target, all, c_.lanes);
  if (!target.lanes) {
    if (running_.running_value(target) != nullptr) {
      running_.update_running(s, target, value, factor);
    } else if (c_.lanes.width == 1) {
      update(s, target, value, factor);
    } else {
      update_from_lanes(s, target, value, factor);
    }
    return;
  }
  value = c_.splat(value);
  if (factor != nullptr) factor = c_.splat(factor);
  bool may_collide = target.offsets != nullptr && s.kind != nest::StoreKind::assign;
  if (may_collide) {
    update_lane_by_lane(s, target, value, factor);
  } else {
    update(s, target, value, factor);
  }
}

void StoreEmitter::update(const nest::Store& s, const Reference& target, llvm::Value* value,
                          llvm::Value* factor) {
  if (s.kind != nest::StoreKind::assign) {
    value = emit_combine(c_.ir, s.kind, c_.type_of(target.buffer), c_.memory.load(target, c_.lanes),
                         value, factor, c_.half);
  }
  c_.memory.store(target, value, c_.lanes);
  if (target.cell < 0) count_store();
}

// One cell that all lanes update.
void StoreEmitter::update_from_lanes(const nest::Store& s, const Reference& target,
                                     llvm::Value* value, llvm::Value* factor) {
  auto emit = [&] {
    Lanes one;
    llvm::Value* result = nullptr;
    if (s.kind == nest::StoreKind::assign) {
      result = value->getType()->isVectorTy() ? last_lane(value) : value;
    } else {
      llvm::Value* factors = factor == nullptr ? nullptr : c_.splat(factor);
      result =
          emit_combine_lanes(c_.ir, s.kind, c_.type_of(target.buffer), c_.memory.load(target, one),
                             c_.splat(value), factors, c_.lanes.mask, c_.half);
    }
    c_.memory.store(target, result, one);
  };
  if (c_.lanes.any == nullptr) {
    emit();
  } else {
    c_.conditional(c_.lanes.any, emit);
  }
}

// Lanes whose cells may coincide take turns.
void StoreEmitter::update_lane_by_lane(const nest::Store& s, const Reference& target,
                                       llvm::Value* value, llvm::Value* factor) {
  for (unsigned l = 0; l < c_.lanes.width; ++l) {
    auto emit = [&] {
      llvm::Value* one = c_.ir.CreateExtractElement(value, l);
      llvm::Value* other = factor == nullptr ? nullptr : c_.ir.CreateExtractElement(factor, l);
      Reference cell = c_.memory.at_lane(target, l);
      c_.within(Lanes{}, [&] { update(s, cell, one, other); });
    };
    if (c_.lanes.mask == nullptr) {
      emit();
    } else {
      c_.conditional(c_.ir.CreateExtractElement(c_.lanes.mask, l), emit);
    }
  }
}

llvm::Value* StoreEmitter::last_lane(llvm::Value* value) {
  if (c_.lanes.mask == nullptr) return c_.ir.CreateExtractElement(value, c_.lanes.width - 1);
  llvm::Type* bits = c_.ir.getIntNTy(c_.lanes.width);
  llvm::Value* mask = c_.ir.CreateBitCast(c_.lanes.mask, bits);
  llvm::Value* leading = c_.ir.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, mask, c_.ir.getFalse());
  llvm::Value* top = llvm::ConstantInt::get(bits, c_.lanes.width - 1);
  llvm::Value* lane = c_.ir.CreateZExtOrTrunc(c_.ir.CreateSub(top, leading), c_.ir.getInt64Ty());
  return c_.ir.CreateExtractElement(value, lane);
}

// Ends a block of straight-line code that stores too often. A plain branch would be folded away
// again; this one tests what is always true.
void StoreEmitter::count_store() {
  if (c_.ir.GetInsertBlock() != stores_in_) {
    stores_in_ = c_.ir.GetInsertBlock();
    stores_ = 0;
  }
  if (++stores_ < kBlockStores) return;
  llvm::LLVMContext& context = c_.function.getContext();
  auto* never = llvm::BasicBlock::Create(context, "", &c_.function);
  auto* next = llvm::BasicBlock::Create(context, "", &c_.function);
  c_.ir.CreateCondBr(c_.ir.CreateIsNotNull(c_.function.getArg(0)), next, never);
  c_.ir.SetInsertPoint(never);
  c_.ir.CreateRetVoid();
  c_.ir.SetInsertPoint(next);
}

}  // namespace tile::cpu
