// How LLVM's linker gets its memory from a pool.
#pragma once

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>

#include <memory>

#include "backends/cpu/jit/code_pool.h"

namespace tile::cpu {

// Objects of code and constants; one that has data to be written is an error.
std::unique_ptr<llvm::jitlink::JITLinkMemoryManager> memory_in(std::shared_ptr<CodePool> pool);

}  // namespace tile::cpu
