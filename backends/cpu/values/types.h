// Element types as LLVM types.
#pragma once

#include <llvm/IR/DerivedTypes.h>

#include "core/ir/dtype.h"

namespace tile::cpu {

// In registers bool is i1, and floats below 32 bits are their bits in an integer: whatever the
// target, only conversions touch them.
llvm::Type* register_type(llvm::LLVMContext& context, DType type);
// In memory bool is an i8 that holds 0 or 1.
llvm::Type* memory_type(llvm::LLVMContext& context, DType type);
// `element`, or a vector of it; width 0 or 1 is a scalar.
llvm::Type* with_lanes(llvm::Type* element, unsigned width);

}  // namespace tile::cpu
