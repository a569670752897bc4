// An ELF object in memory for each function, which holds no code: a section that lies where the
// code is, a symbol, and DWARF 4 with one function and a line table for its first instruction.
#include "runtime/engine/inspect/gdb.h"

#include <elf.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

#include "runtime/engine/inspect/bytes.h"

// The interface as gdb's manual has it ("JIT Compilation Interface"). LLVM defines the same names;
// where both are in one file there is to be one of each.
extern "C" {
struct tile_jit_code_entry {
  tile_jit_code_entry* next;
  tile_jit_code_entry* previous;
  const char* object;
  uint64_t bytes;
};
struct tile_jit_descriptor {
  uint32_t version;
  uint32_t action;
  tile_jit_code_entry* relevant;
  tile_jit_code_entry* first;
};
// gdb stops here, and reads the descriptor.
[[gnu::weak, gnu::noinline, gnu::used]] void __jit_debug_register_code() {
  asm volatile("" ::: "memory");
}
[[gnu::weak, gnu::used]] tile_jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};
}

namespace tile::gdb {
namespace {

constexpr uint32_t kRegister = 1;  // an action

// Codes of DWARF 4, sections 7.5 and 6.2.5.
constexpr uint8_t kCompileUnit = 0x11, kSubprogram = 0x2e, kNoChildren = 0, kChildren = 1;
constexpr uint8_t kName = 0x03, kStatements = 0x10, kLowPc = 0x11, kHighPc = 0x12, kFolder = 0x1b;
constexpr uint8_t kAddressForm = 0x01, kStringForm = 0x08, kOffsetForm = 0x17;
constexpr uint8_t kCopy = 1, kAdvancePc = 2, kAdvanceLine = 3;
constexpr uint8_t kEndSequence = 1, kSetAddress = 2;

struct Function {
  std::string name;
  SourceLine line;
  std::vector<int> others;
  uint64_t begin, bytes;
};

std::string abbreviations() {
  Bytes b;
  for (uint8_t byte :
       {uint8_t{1},  kCompileUnit, kChildren,    kName,        kStringForm,  kFolder,
        kStringForm, kLowPc,       kAddressForm, kHighPc,      kAddressForm, kStatements,
        kOffsetForm, uint8_t{0},   uint8_t{0},   uint8_t{2},   kSubprogram,  kNoChildren,
        kName,       kStringForm,  kLowPc,       kAddressForm, kHighPc,      kAddressForm,
        uint8_t{0},  uint8_t{0},   uint8_t{0}}) {
    b.put(byte);
  }
  return b.all();
}

std::string with_length(const Bytes& unit) {
  return Bytes().put(static_cast<uint32_t>(unit.size())).raw(unit.all()).all();
}

std::string information(const Function& f) {
  Bytes b;
  b.put(uint16_t{4}).put(uint32_t{0}).put(uint8_t{8});  // version, abbreviations, address size
  uint64_t end = f.begin + f.bytes;
  b.uleb(1).text(f.line.file).text(".").put(f.begin).put(end).put(uint32_t{0});
  b.uleb(2).text(f.name).put(f.begin).put(end);
  return with_length(b.put(uint8_t{0}));
}

std::string lines(const Function& f) {
  Bytes head;
  head.put(uint8_t{1})
      .put(uint8_t{1})
      .put(uint8_t{1});  // instruction's bytes, operations, a statement
  constexpr std::array<uint8_t, 12> kLengths = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};
  head.put(int8_t{-5}).put(uint8_t{14}).put(uint8_t{kLengths.size() + 1});
  head.raw(kLengths.data(), kLengths.size());
  head.put(uint8_t{0});  // no folders
  head.text(f.line.file).uleb(0).uleb(0).uleb(0).put(uint8_t{0});
  Bytes program;
  program.put(uint8_t{0}).uleb(1 + sizeof f.begin).put(kSetAddress).put(f.begin);
  // A row for each line, at one address: the last one is what gdb calls the place.
  int now = 1;
  auto row = [&](int line) {
    program.put(kAdvanceLine).sleb(line - now).put(kCopy);
    now = line;
  };
  for (int line : f.others) row(line);
  row(f.line.number);
  program.put(kAdvancePc).uleb(f.bytes).put(uint8_t{0}).uleb(1).put(kEndSequence);
  Bytes unit;
  unit.put(uint16_t{4}).put(static_cast<uint32_t>(head.size())).raw(head.all()).raw(program.all());
  return with_length(unit);
}

struct Section {
  std::string_view name;
  uint32_t type;
  std::string bytes;
  uint64_t flags = 0, address = 0, size = 0;  // the size where there are no bytes
  uint32_t link = 0, info = 0;
  uint64_t entry = 0;
};

std::string symbols(const Function& f) {
  Elf64_Sym none{}, symbol{};
  symbol.st_name = 1;
  symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  symbol.st_shndx = 1;
  symbol.st_size = f.bytes;
  return Bytes().put(none).put(symbol).all();
}

std::string object_of(const Function& f) {
  constexpr uint32_t kSymbolNames = 3;  // the number of that section
  std::array<Section, 8> sections = {{
      {"", SHT_NULL, ""},
      {".text", SHT_NOBITS, "", SHF_ALLOC | SHF_EXECINSTR, f.begin, f.bytes},
      {".symtab", SHT_SYMTAB, symbols(f), 0, 0, 0, kSymbolNames, 1, sizeof(Elf64_Sym)},
      {".strtab", SHT_STRTAB, Bytes().text("").text(f.name).all()},
      {".debug_abbrev", SHT_PROGBITS, abbreviations()},
      {".debug_info", SHT_PROGBITS, information(f)},
      {".debug_line", SHT_PROGBITS, lines(f)},
      {".shstrtab", SHT_STRTAB, ""},
  }};
  Bytes names, body, table;
  std::array<uint32_t, 8> name_at{};
  for (size_t i = 0; i < sections.size(); ++i) {
    name_at[i] = static_cast<uint32_t>(names.size());
    names.text(sections[i].name);
  }
  sections.back().bytes = names.all();
  for (size_t i = 0; i < sections.size(); ++i) {
    const Section& s = sections[i];
    Elf64_Shdr header{};
    header.sh_name = name_at[i];
    header.sh_type = s.type;
    header.sh_flags = s.flags;
    header.sh_addr = s.address;
    header.sh_offset = sizeof(Elf64_Ehdr) + body.size();
    header.sh_size = s.bytes.empty() ? s.size : s.bytes.size();
    header.sh_link = s.link;
    header.sh_info = s.info;
    header.sh_addralign = s.type == SHT_SYMTAB ? 8 : 1;
    header.sh_entsize = s.entry;
    table.put(header);
    body.raw(s.bytes);
    while (body.size() % 8 != 0) body.put(uint8_t{0});
  }
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_ident[EI_VERSION] = EV_CURRENT;
  head.e_type = ET_REL;
  head.e_machine = EM_X86_64;
  head.e_version = EV_CURRENT;
  head.e_shoff = sizeof(Elf64_Ehdr) + body.size();
  head.e_ehsize = sizeof(Elf64_Ehdr);
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shnum = static_cast<uint16_t>(sections.size());
  head.e_shstrndx = static_cast<uint16_t>(sections.size() - 1);
  return Bytes().put(head).raw(body.all()).raw(table.all()).all();
}

}  // namespace

bool is_on() {
  static const bool on = [] {
    const char* value = std::getenv("TILE_GDB");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return on;
}

void tell(const cpu::CodeSymbol& symbol, const std::string& name, const SourceLine& line,
          const std::vector<int>& others) {
  static std::mutex mutex;
  Function f{name, line, others, reinterpret_cast<uint64_t>(symbol.address), symbol.bytes};
  // Both stay as long as the process: gdb may attach at any time.
  auto* object = new std::string(object_of(f));
  auto* entry = new tile_jit_code_entry{nullptr, nullptr, object->data(), object->size()};
  std::lock_guard lock(mutex);
  entry->next = __jit_debug_descriptor.first;
  if (entry->next != nullptr) entry->next->previous = entry;
  __jit_debug_descriptor.first = __jit_debug_descriptor.relevant = entry;
  __jit_debug_descriptor.action = kRegister;
  __jit_debug_register_code();
}

}  // namespace tile::gdb
