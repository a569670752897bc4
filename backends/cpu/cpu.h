// The CPU backend: nests become LLVM IR, ORC links them into the process, oneTBB runs them.
#pragma once

#include <memory>

#include "backends/backend.h"

namespace tile::cpu {

// Probes the host. Throws Failure (compile) where LLVM cannot make code for this machine.
std::unique_ptr<Backend> make_backend();

}  // namespace tile::cpu
