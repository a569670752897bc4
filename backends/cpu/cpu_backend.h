// The CPU backend: Nest -> LLVM IR -> ORC -> oneTBB.
#pragma once

#include <memory>

#include "backends/backend.h"

namespace tile::cpu {

// One backend for the process (LLVM's JIT session and the probed host), made on first use and kept
// as long as anyone holds it.
std::shared_ptr<Backend> shared_backend();

}  // namespace tile::cpu
