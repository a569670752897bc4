#include "runtime/engine/inspect/gdb_object.h"

#include <elf.h>

#include <array>
#include <cstring>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "runtime/engine/inspect/bytes.h"

namespace tile::gdb {
namespace {

// Codes of DWARF 4, sections 7.5 and 6.2.5.
constexpr uint8_t kLabel = 0x0a, kBlock = 0x0b, kCompileUnit = 0x11, kSubprogram = 0x2e;
constexpr uint8_t kNoChildren = 0, kChildren = 1;
constexpr uint8_t kName = 0x03, kStatements = 0x10, kLowPc = 0x11, kHighPc = 0x12, kFolder = 0x1b,
                  kRanges = 0x55;
constexpr uint8_t kAddressForm = 0x01, kStringForm = 0x08, kOffsetForm = 0x17;
constexpr uint8_t kCopy = 1, kAdvancePc = 2, kAdvanceLine = 3;
constexpr uint8_t kEndSequence = 1, kSetAddress = 2;
// Abbreviations.
constexpr uint8_t kUnitEntry = 1, kFunctionEntry = 2, kBlockEntry = 3, kLabelEntry = 4;

uint64_t begin_of(const Function& f) { return reinterpret_cast<uint64_t>(f.symbol.address); }
uint64_t end_of(const Function& f) { return begin_of(f) + f.symbol.bytes; }

// The rows of the function's line table. One is left out that says what the row before does, but
// for the second: gdb takes it for the end of what a function does before its first statement.
std::vector<cpu::CodeLine> rows_of(const Function& f) {
  std::vector<cpu::CodeLine> rows;
  std::set<int> own;
  for (const cpu::CodeLine& line : f.symbol.lines) own.insert(static_cast<int>(line.line));
  // Lines at one address: the last one is what gdb calls the place.
  for (int line : f.others) {
    if (!own.contains(line)) rows.push_back({begin_of(f), static_cast<unsigned>(line), 0});
  }
  if (f.symbol.lines.empty() || f.symbol.lines.front().address > begin_of(f)) {
    rows.push_back({begin_of(f), static_cast<unsigned>(f.line.number), 0});
  }
  for (size_t i = 0; i < f.symbol.lines.size(); ++i) {
    const cpu::CodeLine& line = f.symbol.lines[i];
    bool same = i > 1 && line.line == rows.back().line && line.part == rows.back().part;
    if (!same) rows.push_back(line);
  }
  return rows;
}

struct Range {
  uint64_t begin, end;
};
// Of the parts of the function but its own, by their numbers.
struct Part {
  unsigned line = 0;
  std::vector<Range> ranges;
};
std::map<unsigned, Part> parts_of(const Function& f) {
  std::map<unsigned, Part> parts;
  std::vector<cpu::CodeLine> rows = rows_of(f);
  for (size_t i = 0; i < rows.size(); ++i) {
    uint64_t end = i + 1 < rows.size() ? rows[i + 1].address : end_of(f);
    if (rows[i].part == 0 || rows[i].address == end) continue;
    Part& part = parts[rows[i].part];
    part.line = rows[i].line;
    if (!part.ranges.empty() && part.ranges.back().end == rows[i].address) {
      part.ranges.back().end = end;
    } else {
      part.ranges.push_back({rows[i].address, end});
    }
  }
  return parts;
}

// An abbreviation: an entry's tag and the attributes that it has, with their forms.
void abbreviate(Bytes& b, uint8_t number, uint8_t tag, uint8_t children,
                std::initializer_list<std::pair<uint8_t, uint8_t>> attributes) {
  b.put(number).put(tag).put(children);
  for (auto [attribute, form] : attributes) b.put(attribute).put(form);
  b.put(uint8_t{0}).put(uint8_t{0});
}

std::string abbreviations() {
  Bytes b;
  abbreviate(b, kUnitEntry, kCompileUnit, kChildren,
             {{kName, kStringForm},
              {kFolder, kStringForm},
              {kLowPc, kAddressForm},
              {kHighPc, kAddressForm},
              {kStatements, kOffsetForm}});
  abbreviate(b, kFunctionEntry, kSubprogram, kChildren,
             {{kName, kStringForm}, {kLowPc, kAddressForm}, {kHighPc, kAddressForm}});
  abbreviate(b, kBlockEntry, kBlock, kChildren, {{kRanges, kOffsetForm}});
  abbreviate(b, kLabelEntry, kLabel, kNoChildren, {{kName, kStringForm}, {kLowPc, kAddressForm}});
  return b.put(uint8_t{0}).all();
}

std::string with_length(const Bytes& unit) {
  return Bytes().put(static_cast<uint32_t>(unit.size())).raw(unit.all()).all();
}

// gdb stops for a line once in each lexical block, but keeps only blocks in which something is
// named: a label.
std::string information(const Function& f) {
  Bytes b;
  b.put(uint16_t{4}).put(uint32_t{0}).put(uint8_t{8});  // version, abbreviations, address size
  b.uleb(kUnitEntry).text(f.line.file).text(".").put(begin_of(f)).put(end_of(f)).put(uint32_t{0});
  b.uleb(kFunctionEntry).text(f.name).put(begin_of(f)).put(end_of(f));
  uint32_t at = 0;  // in .debug_ranges
  for (const auto& [number, part] : parts_of(f)) {
    b.uleb(kBlockEntry).put(at);
    b.uleb(kLabelEntry).text("line" + std::to_string(part.line)).put(part.ranges.front().begin);
    b.put(uint8_t{0});
    at += static_cast<uint32_t>((part.ranges.size() + 1) * sizeof(Range));
  }
  return with_length(b.put(uint8_t{0}).put(uint8_t{0}));
}

// Relative to the unit's first address; two zeros end each list.
std::string ranges(const Function& f) {
  Bytes b;
  for (const auto& [number, part] : parts_of(f)) {
    for (const Range& r : part.ranges) b.put(r.begin - begin_of(f)).put(r.end - begin_of(f));
    b.put(uint64_t{0}).put(uint64_t{0});
  }
  return b.all();
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
  uint64_t at = begin_of(f);
  program.put(uint8_t{0}).uleb(1 + sizeof at).put(kSetAddress).put(at);
  int64_t now = 1;
  for (const cpu::CodeLine& row : rows_of(f)) {
    program.put(kAdvancePc).uleb(row.address - at);
    program.put(kAdvanceLine).sleb(int64_t{row.line} - now).put(kCopy);
    at = row.address;
    now = row.line;
  }
  program.put(kAdvancePc).uleb(end_of(f) - at).put(uint8_t{0}).uleb(1).put(kEndSequence);
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
  symbol.st_size = f.symbol.bytes;
  return Bytes().put(none).put(symbol).all();
}

std::vector<Section> sections_of(const Function& f) {
  constexpr uint32_t kSymbolNames = 3;  // the number of that section
  return {
      {"", SHT_NULL, ""},
      {".text", SHT_NOBITS, "", SHF_ALLOC | SHF_EXECINSTR, begin_of(f), f.symbol.bytes},
      {".symtab", SHT_SYMTAB, symbols(f), 0, 0, 0, kSymbolNames, 1, sizeof(Elf64_Sym)},
      {".strtab", SHT_STRTAB, Bytes().text("").text(f.name).all()},
      {".debug_abbrev", SHT_PROGBITS, abbreviations()},
      {".debug_info", SHT_PROGBITS, information(f)},
      {".debug_line", SHT_PROGBITS, lines(f)},
      {".debug_ranges", SHT_PROGBITS, ranges(f)},
      {".debug_frame", SHT_PROGBITS, f.frames},
      {".shstrtab", SHT_STRTAB, ""},
  };
}

Elf64_Ehdr file_header(size_t sections, uint64_t table) {
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_ident[EI_VERSION] = EV_CURRENT;
  head.e_type = ET_REL;
  head.e_machine = EM_X86_64;
  head.e_version = EV_CURRENT;
  head.e_shoff = table;
  head.e_ehsize = sizeof(Elf64_Ehdr);
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shnum = static_cast<uint16_t>(sections);
  head.e_shstrndx = static_cast<uint16_t>(sections - 1);
  return head;
}

}  // namespace

std::string object_of(const Function& f) {
  std::vector<Section> sections = sections_of(f);
  Bytes names, body, table;
  std::vector<uint32_t> name_at(sections.size());
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
  Elf64_Ehdr head = file_header(sections.size(), sizeof(Elf64_Ehdr) + body.size());
  return Bytes().put(head).raw(body.all()).raw(table.all()).all();
}

}  // namespace tile::gdb
