// Updates of stores: old (+) value, and reductions over lanes.
#pragma once

#include "backends/cpu/values/operation.h"
#include "core/nest/nest.h"

namespace tile::cpu {

// What a store of this kind leaves in a cell of `type`; narrow floats are combined in f32 and
// rounded. `factor` is the second result of an fma, else null.
llvm::Value* emit_combine(llvm::IRBuilderBase& ir, nest::StoreKind kind, DType type,
                          llvm::Value* old, llvm::Value* value, llvm::Value* factor,
                          HalfConversion half);

// Combines a scalar `old` with every lane of `value` (and of `factor`, for fma) that is switched on
// in `mask` (null: all of them), in any order; the kind is not assign.
llvm::Value* emit_combine_lanes(llvm::IRBuilderBase& ir, nest::StoreKind kind, DType type,
                                llvm::Value* old, llvm::Value* value, llvm::Value* factor,
                                llvm::Value* mask, HalfConversion half);

// A scan. `each`: what the cell holds after each lane's update, lanes that are off in `mask` (null:
// none) leaving it as it is; `last`: after all of them, on every lane. `before` is the same of the
// update before; if there is none, what the cell holds, on every lane of both. Lanes update in
// order, `mirrored`: the last one first.
struct RunningLanes {
  llvm::Value* each = nullptr;
  llvm::Value* last = nullptr;
};
RunningLanes emit_running_lanes(llvm::IRBuilderBase& ir, nest::StoreKind kind, DType type,
                                RunningLanes before, llvm::Value* value, llvm::Value* factor,
                                llvm::Value* mask, bool mirrored, HalfConversion half);

}  // namespace tile::cpu
