// Interleaved elements: lane l has `count` neighbouring elements, the components of its pixel.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>

#include "backends/cpu/memory/lanes.h"

namespace tile::cpu {

// How load_group gives the components of so many lanes.
llvm::FixedVectorType* group_type(llvm::Type* element, unsigned count, unsigned width);
// All components of all lanes, from the first lane's first one: a vector of integers that each hold
// a lane's components where 64 bits can, else of the elements in order.
llvm::Value* load_group(llvm::IRBuilderBase& ir, llvm::Type* element, llvm::Value* pointer,
                        unsigned count, const Lanes& lanes);
// Whether gather_group reads pixels of so many elements: one integer of a gather holds them.
bool gathers_whole(llvm::Type* element, unsigned count);
// The same where lane l's first component is at pointer + offsets[l] elements.
llvm::Value* gather_group(llvm::IRBuilderBase& ir, llvm::Type* element, llvm::Value* pointer,
                          llvm::Value* offsets, unsigned count, const Lanes& lanes);
// One component of each lane.
llvm::Value* component_of(llvm::IRBuilderBase& ir, llvm::Value* group, llvm::Type* element,
                          unsigned count, unsigned component, unsigned width);
// The group that has these components, as load_group gives it.
llvm::Value* group_of(llvm::IRBuilderBase& ir, std::span<llvm::Value* const> components);
void store_group(llvm::IRBuilderBase& ir, llvm::Value* group, llvm::Type* element,
                 llvm::Value* pointer, unsigned count, const Lanes& lanes);

}  // namespace tile::cpu
