// Narrow elements packed into 32 bits, and the instructions that multiply and add them.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/MC/MCSubtargetInfo.h>

#include <span>

#include "backends/cpu/values/operation.h"
#include "core/ir/operation.h"

namespace tile::cpu {

// The widest vector, in lanes of 32 bits, that one instruction of each kind takes; 0: there is
// none.
struct DotInstructions {
  unsigned bf16 = 0;     // vdpbf16ps
  unsigned integer = 0;  // vpdpbusd and vpdpwssd
};
DotInstructions dot_instructions(const llvm::MCSubtargetInfo& features);

// An operation of type rule `packed`: any number of lanes, the same for all operands. Where the
// target has no instruction for a dot, its definition in core/ir/operations.def, step by step.
llvm::Value* emit_packed(llvm::IRBuilderBase& ir, Op op, std::span<const Operand> operands,
                         const DotInstructions& dots);

}  // namespace tile::cpu
