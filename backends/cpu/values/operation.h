// Scalar operations as LLVM IR: one emitter for each row of core/ir/operations.def.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>

#include "backends/cpu/math/vector_math.h"
#include "core/ir/dtype.h"
#include "core/ir/operation.h"

namespace tile::cpu {

struct Operand {
  llvm::Value* value = nullptr;
  DType type = DType::none;
};

// The result in `type`, of the same number of lanes as the operands, which must all agree. Never
// traps, for any values.
llvm::Value* emit_operation(llvm::IRBuilderBase& ir, Op op, DType type,
                            std::span<const Operand> operands, HalfConversion half);

}  // namespace tile::cpu
