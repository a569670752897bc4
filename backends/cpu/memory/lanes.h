// Reads and writes of one element per lane.
#pragma once

#include <llvm/IR/IRBuilder.h>

namespace tile::cpu {

// The vector loop that code is emitted in.
struct Lanes {
  unsigned width = 1;           // 1: none
  llvm::Value* mask = nullptr;  // lanes that are switched on; null: all
  llvm::Value* any = nullptr;   // i1, whether one is; null: certainly
  unsigned leading = 0;  // with a mask: the lanes that are on are the first so many; 0: others
  // How many leading lanes are on, and no others; 0: not known.
  unsigned count() const { return mask == nullptr ? width : leading; }
};

// Neighbours, of which those whose bit is off are not touched, and read as anything; no mask: all.
llvm::Value* load_masked(llvm::IRBuilderBase& ir, llvm::FixedVectorType* type, llvm::Value* pointer,
                         llvm::Value* mask, llvm::Align align);
void store_masked(llvm::IRBuilderBase& ir, llvm::Value* value, llvm::Value* pointer,
                  llvm::Value* mask, llvm::Align align);

// Lane l's element is at pointer + l * stride elements, stride != 0. Elements of lanes that are off
// are not touched, and read as anything.
llvm::Value* load_strided(llvm::IRBuilderBase& ir, llvm::Type* element, llvm::Value* pointer,
                          int64_t stride, const Lanes& lanes);
// The `size` elements from the pointer on; the vector may be longer, with anything behind them.
llvm::Value* load_block(llvm::IRBuilderBase& ir, llvm::Type* element, llvm::Value* pointer,
                        unsigned size);
void store_strided(llvm::IRBuilderBase& ir, llvm::Value* value, llvm::Value* pointer,
                   int64_t stride, const Lanes& lanes);

// Lane numbers times the stride; 32 bits where they fit, which halves the work of a gather.
llvm::Value* lane_offsets(llvm::IRBuilderBase& ir, int64_t stride, unsigned width);
// Lane l's element is at pointer + offsets[l] elements. Where two lanes store to one element the
// higher lane wins.
llvm::Value* load_gathered(llvm::IRBuilderBase& ir, llvm::Type* element, llvm::Value* pointer,
                           llvm::Value* offsets, const Lanes& lanes);
void store_scattered(llvm::IRBuilderBase& ir, llvm::Value* value, llvm::Value* pointer,
                     llvm::Value* offsets, const Lanes& lanes);

}  // namespace tile::cpu
