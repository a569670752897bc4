#include "backends/cpu/code_symbols.h"

#include <llvm/Object/ELFObjectFile.h>

#include <string>

#include "backends/cpu/jit/llvm_memory.h"
#include "backends/cpu/launch/code.h"
#include "backends/cpu/launch/debug_sections.h"

namespace tile::cpu {
namespace {

// The object of linked code, which says what the linker keeps no record of.
class ReadObject {
 public:
  // `functions`: where entry_0, entry_1 … are.
  ReadObject(std::span<const char> code, std::vector<uint64_t> functions)
      : functions_(std::move(functions)),
        // The plan before the code has any length, and objects are to be aligned.
        bytes_(copied_for_llvm({code.data(), code.size()}, "kernel")) {
    auto object = llvm::object::ObjectFile::createELFObjectFile(bytes_->getMemBufferRef());
    if (object) {
      object_ = std::move(*object);
    } else {
      llvm::consumeError(object.takeError());
    }
  }

  std::vector<CodeSymbol> symbols() const {
    std::vector<CodeSymbol> found;
    if (!object_) return found;
    each_function([&](const llvm::object::ELFSymbolRef& symbol, uint64_t address) {
      found.push_back({reinterpret_cast<const void*>(address), symbol.getSize(), {}});
    });
    std::vector<CodeLine> lines = debug().lines();
    for (CodeSymbol& symbol : found) {
      auto begin = reinterpret_cast<uint64_t>(symbol.address);
      for (const CodeLine& line : lines) {
        bool own = line.address >= begin && line.address < begin + symbol.bytes;
        if (own && line.line > 0) symbol.lines.push_back(line);
      }
    }
    return found;
  }
  std::string frames() const { return object_ ? debug().frames() : ""; }

 private:
  template <class Visit>
  void each_function(const Visit& visit) const {
    for (const llvm::object::ELFSymbolRef symbol : object_->symbols()) {
      llvm::Expected<llvm::StringRef> name = symbol.getName();
      if (!name) {
        llvm::consumeError(name.takeError());
        continue;
      }
      for (size_t i = 0; i < functions_.size(); ++i) {
        if (*name == "entry_" + std::to_string(i)) visit(symbol, functions_[i]);
      }
    }
  }
  // All functions stand in one section.
  DebugSections debug() const {
    uint64_t code = 0;
    each_function([&](const llvm::object::ELFSymbolRef& symbol, uint64_t address) {
      llvm::Expected<uint64_t> offset = symbol.getValue();
      if (offset) {
        code = address - *offset;
      } else {
        llvm::consumeError(offset.takeError());
      }
    });
    return {*object_, code};
  }

  std::vector<uint64_t> functions_;
  std::unique_ptr<llvm::MemoryBuffer> bytes_;
  std::unique_ptr<llvm::object::ObjectFile> object_;
};

template <class Read>
auto read(std::span<const char> packed, const std::vector<uint64_t>& functions, const Read& what) {
  std::optional<Unpacked> parts = unpacked(packed);
  return parts ? what(ReadObject(parts->code, functions)) : decltype(what(ReadObject({}, {})))();
}

}  // namespace

std::vector<CodeSymbol> CpuCode::symbols() const {
  return read(object_, addresses(), [](const ReadObject& o) { return o.symbols(); });
}
std::string CpuCode::frames() const {
  return read(object_, addresses(), [](const ReadObject& o) { return o.frames(); });
}
std::vector<uint64_t> CpuCode::addresses() const {
  std::vector<uint64_t> all;
  for (const EntryPoint& e : entries_) all.push_back(reinterpret_cast<uint64_t>(e.function));
  return all;
}

std::vector<CodeSymbol> code_symbols(const Code& code) {
  const auto* own = dynamic_cast<const CpuCode*>(&code);
  return own == nullptr ? std::vector<CodeSymbol>() : own->symbols();
}

std::string code_frames(const Code& code) {
  const auto* own = dynamic_cast<const CpuCode*>(&code);
  return own == nullptr ? "" : own->frames();
}

}  // namespace tile::cpu
