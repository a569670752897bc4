// Blocks turned in registers.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>
#include <vector>

namespace tile::cpu {

// Column c of the rows, for each c < count: element r of it is element c of row r. There are a
// power of two of rows, vectors of one type with a power of two of at least `count` elements.
std::vector<llvm::Value*> transposed(llvm::IRBuilderBase& ir, std::span<llvm::Value* const> rows,
                                     unsigned count);

}  // namespace tile::cpu
