// Conversions between element types (rule 5.6), on scalars and on lanes.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "backends/cpu/math/vector_math.h"
#include "core/ir/dtype.h"

namespace tile::cpu {

llvm::Value* emit_convert(llvm::IRBuilderBase& ir, llvm::Value* value, DType from, DType to,
                          HalfConversion half);
// value != 0, as i1; NaN is true.
llvm::Value* emit_truth(llvm::IRBuilderBase& ir, llvm::Value* value, DType type);

}  // namespace tile::cpu
