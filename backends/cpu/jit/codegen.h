// LLVM modules to machine code.
#pragma once

#include <llvm/ADT/SmallVector.h>

#include <string>

#include "backends/cpu/plan/plan.h"
#include "core/nest/nest.h"
#include "core/support/pass.h"
#include "core/target/target.h"

namespace tile::cpu {

// Lends workshops (a target machine with LLVM's passes for it), one to each compiling thread, and
// keeps them for the next, also for generators made later.
class CodeGenerator {
 public:
  CodeGenerator();
  // All throw Failure (compile, "backend") for a target that LLVM does not know or a nest that it
  // cannot compile.
  // The observer of object() may be null.
  llvm::SmallVector<char> object(const nest::Nest& nest, const Plan& plan, const Target& target,
                                 PassObserver* observer = nullptr);
  std::string assembly(const nest::Nest& nest, const Plan& plan, const Target& target);
  std::string ir(const nest::Nest& nest, const Plan& plan, const Target& target);
};

}  // namespace tile::cpu
