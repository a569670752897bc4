#include <algorithm>

#include "backends/cpu/emit/emitter.h"
#include "backends/cpu/values/combine.h"

namespace tile::cpu {

namespace {

bool reads(const nest::Store& s, int buffer) {
  return std::any_of(s.loads.begin(), s.loads.end(),
                     [&](const nest::Access& a) { return a.buffer == buffer; });
}

}  // namespace

// How many statements from `first` on assign all components of one pixel in order.
size_t FunctionEmitter::components_from(const nest::Block& statements, size_t first) const {
  const auto* s = std::get_if<nest::Store>(&statements[first].what);
  if (s == nullptr || lanes_.width == 1 || s->target.index.empty()) return 0;
  const nest::Buffer& b = nest_.buffers[static_cast<size_t>(s->target.buffer)];
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
bool FunctionEmitter::store_together(const nest::Block& statements, size_t first, size_t count) {
  const auto& s = std::get<nest::Store>(statements[first].what);
  Reference target = memory_.resolve(s.target, {}, lanes_);
  unsigned component = 0;
  if (memory_.group_size(target, component) != count || component != 0) return false;
  std::vector<const nest::Store*> parts;
  for (size_t i = 0; i < count; ++i) {
    parts.push_back(&std::get<nest::Store>(statements[first + i].what));
  }
  llvm::Value* pixels = packed_pixels(parts);
  if (pixels != nullptr) {
    memory_.store_pixels(target, pixels, static_cast<unsigned>(count), lanes_);
  } else {
    Nodes components;
    for (const nest::Store* part : parts) {
      Nodes nodes = values(part->body, part->loads);
      components.push_back(splat(nodes[static_cast<size_t>(part->body.results[0])]));
    }
    memory_.store_components(target, components, lanes_);
  }
  count_store();
  return true;
}

void FunctionEmitter::statement(const nest::Store& s) {
  prefetch_later_stores(s);
  Nodes nodes = values(s.body, s.loads, s.target.values);
  auto result = [&](size_t i) { return nodes[static_cast<size_t>(s.body.results[i])]; };
  llvm::Value* value = result(0);
  llvm::Value* factor = s.kind == nest::StoreKind::fma ? result(1) : nullptr;
  std::vector<Operand> all;
  if (!s.target.values.empty()) {
    for (size_t n = 0; n < nodes.size(); ++n) all.push_back({nodes[n], s.body.nodes[n].type});
  }
  Reference target = memory_.resolve(s.target, all, lanes_);
  if (!target.lanes) {
    if (running_value(target) != nullptr) {
      update_running(s, target, value, factor);
    } else if (lanes_.width == 1) {
      update(s, target, value, factor);
    } else {
      update_from_lanes(s, target, value, factor);
    }
    return;
  }
  value = splat(value);
  if (factor != nullptr) factor = splat(factor);
  bool may_collide = target.offsets != nullptr && s.kind != nest::StoreKind::assign;
  if (may_collide) {
    update_lane_by_lane(s, target, value, factor);
  } else {
    update(s, target, value, factor);
  }
}

void FunctionEmitter::update(const nest::Store& s, const Reference& target, llvm::Value* value,
                             llvm::Value* factor) {
  if (s.kind != nest::StoreKind::assign) {
    value = emit_combine(ir_, s.kind, type_of(target.buffer), memory_.load(target, lanes_), value,
                         factor, half_);
  }
  memory_.store(target, value, lanes_);
  if (target.cell < 0) count_store();
}

// One cell that all lanes update.
void FunctionEmitter::update_from_lanes(const nest::Store& s, const Reference& target,
                                        llvm::Value* value, llvm::Value* factor) {
  auto emit = [&] {
    Lanes one;
    llvm::Value* result = nullptr;
    if (s.kind == nest::StoreKind::assign) {
      result = value->getType()->isVectorTy() ? last_lane(value) : value;
    } else {
      llvm::Value* factors = factor == nullptr ? nullptr : splat(factor);
      result = emit_combine_lanes(ir_, s.kind, type_of(target.buffer), memory_.load(target, one),
                                  splat(value), factors, lanes_.mask, half_);
    }
    memory_.store(target, result, one);
  };
  if (lanes_.any == nullptr) {
    emit();
  } else {
    conditional(lanes_.any, emit);
  }
}

// Lanes whose cells may coincide take turns.
void FunctionEmitter::update_lane_by_lane(const nest::Store& s, const Reference& target,
                                          llvm::Value* value, llvm::Value* factor) {
  for (unsigned l = 0; l < lanes_.width; ++l) {
    auto emit = [&] {
      llvm::Value* one = ir_.CreateExtractElement(value, l);
      llvm::Value* other = factor == nullptr ? nullptr : ir_.CreateExtractElement(factor, l);
      Reference cell = memory_.at_lane(target, l);
      within(Lanes{}, [&] { update(s, cell, one, other); });
    };
    if (lanes_.mask == nullptr) {
      emit();
    } else {
      conditional(ir_.CreateExtractElement(lanes_.mask, l), emit);
    }
  }
}

llvm::Value* FunctionEmitter::last_lane(llvm::Value* value) {
  if (lanes_.mask == nullptr) return ir_.CreateExtractElement(value, lanes_.width - 1);
  llvm::Type* bits = ir_.getIntNTy(lanes_.width);
  llvm::Value* mask = ir_.CreateBitCast(lanes_.mask, bits);
  llvm::Value* leading = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, mask, ir_.getFalse());
  llvm::Value* top = llvm::ConstantInt::get(bits, lanes_.width - 1);
  llvm::Value* lane = ir_.CreateZExtOrTrunc(ir_.CreateSub(top, leading), ir_.getInt64Ty());
  return ir_.CreateExtractElement(value, lane);
}

}  // namespace tile::cpu
