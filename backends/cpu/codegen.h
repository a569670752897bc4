// LLVM modules to machine code.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/Target/TargetMachine.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cpu/plan.h"
#include "core/nest/nest.h"
#include "core/schedule/target.h"

namespace tile::cpu {

// Lends target machines, one to each compiling thread, and keeps them for the next.
class CodeGenerator {
 public:
  CodeGenerator();
  // All throw Failure (compile, "backend") for a target that LLVM does not know or a nest that it
  // cannot compile.
  llvm::SmallVector<char> object(const nest::Nest& nest, const Plan& plan, const Target& target);
  std::string assembly(const nest::Nest& nest, const Plan& plan, const Target& target);
  std::string ir(const nest::Nest& nest, const Plan& plan, const Target& target);

 private:
  using Machine = std::unique_ptr<llvm::TargetMachine>;
  class Loan;
  Machine make(const std::string& features) const;
  std::string generate(const nest::Nest& nest, const Plan& plan, const Target& target,
                       llvm::CodeGenFileType type);

  std::mutex mutex_;
  std::map<std::string, std::vector<Machine>> idle_;
};

}  // namespace tile::cpu
