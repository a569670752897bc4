#include "backends/cpu/combine.h"
#include "backends/cpu/emitter.h"

namespace tile::cpu {

void FunctionEmitter::statement(const nest::Store& s) {
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
    if (lanes_.width == 1) {
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
