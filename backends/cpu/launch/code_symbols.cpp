#include "backends/cpu/code_symbols.h"

#include <llvm/Object/ELFObjectFile.h>

#include <string>

#include "backends/cpu/jit/llvm_memory.h"
#include "backends/cpu/launch/code.h"

namespace tile::cpu {

// The linker keeps no sizes: they are those of the object's functions.
std::vector<CodeSymbol> CpuCode::symbols() const {
  std::vector<CodeSymbol> found;
  std::optional<Unpacked> parts = unpacked(object_);
  if (!parts) return found;
  // The plan before the code has any length, and objects are to be aligned.
  llvm::StringRef bytes(parts->code.data(), parts->code.size());
  auto aligned = copied_for_llvm(bytes, "kernel");
  auto object = llvm::object::ObjectFile::createELFObjectFile(aligned->getMemBufferRef());
  if (!object) {
    llvm::consumeError(object.takeError());
    return found;
  }
  for (const llvm::object::ELFSymbolRef symbol : (*object)->symbols()) {
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    if (!name) {
      llvm::consumeError(name.takeError());
      continue;
    }
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (*name != "entry_" + std::to_string(i)) continue;
      found.push_back({reinterpret_cast<const void*>(entries_[i].function), symbol.getSize()});
    }
  }
  return found;
}

std::vector<CodeSymbol> code_symbols(const Code& code) {
  const auto* own = dynamic_cast<const CpuCode*>(&code);
  return own == nullptr ? std::vector<CodeSymbol>() : own->symbols();
}

}  // namespace tile::cpu
