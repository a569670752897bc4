// Interleaved elements: lane l has `count` neighbouring elements, the components of its pixel.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>

#include "backends/cpu/memory/lanes.h"

namespace tile::cpu {

// How load_interleaved gives the components of so many lanes.
llvm::FixedVectorType* interleaved_type(llvm::Type* element, unsigned count, unsigned width);
// All components of all lanes, from the first lane's first one: a vector of integers that each hold
// a lane's components where 64 bits can, else of the elements in order.
llvm::Value* load_interleaved(llvm::IRBuilderBase& ir, llvm::Type* element, llvm::Value* pointer,
                              unsigned count, const Lanes& lanes);
// Whether gather_interleaved reads pixels of so many elements: one integer of a gather holds them.
bool gathers_whole(llvm::Type* element, unsigned count);
// The same where lane l's first component is at pointer + offsets[l] elements.
llvm::Value* gather_interleaved(llvm::IRBuilderBase& ir, llvm::Type* element, llvm::Value* pointer,
                                llvm::Value* offsets, unsigned count, const Lanes& lanes);
// One component of each lane.
llvm::Value* component_of(llvm::IRBuilderBase& ir, llvm::Value* group, llvm::Type* element,
                          unsigned count, unsigned component, unsigned width);
// The group that has these components, as load_interleaved gives it.
llvm::Value* interleaved_of(llvm::IRBuilderBase& ir, std::span<llvm::Value* const> components);
void store_interleaved(llvm::IRBuilderBase& ir, llvm::Value* group, llvm::Type* element,
                       llvm::Value* pointer, unsigned count, const Lanes& lanes);

}  // namespace tile::cpu
