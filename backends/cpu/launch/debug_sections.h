// What LLVM has written into an object for debuggers, for code that is linked.
#pragma once

#include <llvm/Object/ELFObjectFile.h>

#include <string>
#include <vector>

#include "backends/cpu/code_symbols.h"

namespace tile::cpu {

class DebugSections {
 public:
  // `code`: where the object's first byte of code is. The object outlives this.
  DebugSections(const llvm::object::ObjectFile& object, uint64_t code)
      : object_(object), code_(code) {}

  // Of all functions, by address; line 0: of none, as where the code ends.
  std::vector<CodeLine> lines() const;
  // .debug_frame.
  std::string frames() const;

 private:
  // A section's bytes with its relocations done; empty where there is none.
  std::string section(llvm::StringRef name) const;
  void relocate(const llvm::object::SectionRef& table, std::string& bytes) const;

  const llvm::object::ObjectFile& object_;
  uint64_t code_;
};

}  // namespace tile::cpu
