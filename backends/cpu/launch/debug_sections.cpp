#include "backends/cpu/launch/debug_sections.h"

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/BinaryFormat/ELF.h>
#include <llvm/Support/DataExtractor.h>

#include <algorithm>
#include <cstring>

namespace tile::cpu {
namespace {

namespace dwarf = llvm::dwarf;

template <class T>
T value_or(llvm::Expected<T> value, T other) {
  if (value) return *value;
  llvm::consumeError(value.takeError());
  return other;
}

// The state machine of a line table (DWARF 4, section 6.2) with what LLVM writes for it.
class LineProgram {
 public:
  explicit LineProgram(llvm::StringRef section) : data_(section, true, sizeof(uint64_t)) {}

  std::vector<CodeLine> rows() {
    while (at_ && data_.isValidOffset(at_.tell())) unit();
    if (at_) return std::move(rows_);
    llvm::consumeError(at_.takeError());
    return {};
  }

 private:
  void unit() {
    uint32_t bytes = data_.getU32(at_);
    uint64_t end = at_.tell() + bytes;
    data_.getU16(at_);  // the version
    uint32_t header = data_.getU32(at_);
    uint64_t first = at_.tell() + header;
    unit_ = data_.getU8(at_);
    data_.skip(at_, 2);  // operations of an instruction; whether rows begin statements
    base_ = static_cast<int8_t>(data_.getU8(at_));
    range_ = data_.getU8(at_);
    special_ = data_.getU8(at_);
    if (!at_ || range_ == 0) return;
    at_.seek(first);
    row_ = {0, 1, 0};
    while (at_ && at_.tell() < end) operation();
  }
  void operation() {
    uint8_t code = data_.getU8(at_);
    if (code >= special_) {
      advance(code - special_);
      row_.line += static_cast<unsigned>(base_ + (code - special_) % range_);
      rows_.push_back(row_);
      return;
    }
    switch (code) {
      case 0:
        return extended();
      case dwarf::DW_LNS_copy:
        return rows_.push_back(row_);
      case dwarf::DW_LNS_advance_pc:
        row_.address += data_.getULEB128(at_) * unit_;
        return;
      case dwarf::DW_LNS_advance_line:
        row_.line += static_cast<unsigned>(data_.getSLEB128(at_));
        return;
      case dwarf::DW_LNS_set_column:
        row_.part = static_cast<unsigned>(data_.getULEB128(at_));
        return;
      case dwarf::DW_LNS_const_add_pc:
        return advance(255 - special_);
      case dwarf::DW_LNS_fixed_advance_pc:
        row_.address += data_.getU16(at_);
        return;
      case dwarf::DW_LNS_set_file:
      case dwarf::DW_LNS_set_isa:
        data_.getULEB128(at_);
        return;
      default:  // of no operand, and nothing to us
        return;
    }
  }
  void extended() {
    uint64_t bytes = std::min<uint64_t>(data_.getULEB128(at_), data_.size());
    uint64_t end = at_.tell() + bytes;
    uint8_t code = data_.getU8(at_);
    if (code == dwarf::DW_LNE_set_address) row_.address = data_.getU64(at_);
    if (code == dwarf::DW_LNE_end_sequence) {
      rows_.push_back({row_.address, 0, 0});
      row_ = {0, 1, 0};
    }
    if (at_) at_.seek(end);
  }
  void advance(int special) { row_.address += static_cast<uint64_t>(special / range_) * unit_; }

  llvm::DataExtractor data_;
  llvm::DataExtractor::Cursor at_{0};
  int base_ = 0, range_ = 1, special_ = 1;
  uint64_t unit_ = 1;  // bytes of an instruction
  CodeLine row_;
  std::vector<CodeLine> rows_;
};

}  // namespace

void DebugSections::relocate(const llvm::object::SectionRef& table, std::string& bytes) const {
  for (const llvm::object::RelocationRef& r : table.relocations()) {
    llvm::object::symbol_iterator symbol = r.getSymbol();
    if (symbol == object_.symbol_end()) continue;
    auto section = value_or(symbol->getSection(), object_.section_end());
    uint64_t value = value_or(symbol->getValue(), uint64_t{0});
    value +=
        static_cast<uint64_t>(value_or(llvm::object::ELFRelocationRef(r).getAddend(), int64_t{0}));
    if (section != object_.section_end() && section->isText()) value += code_;
    bool wide = r.getType() == llvm::ELF::R_X86_64_64;
    size_t size = wide ? sizeof(uint64_t) : sizeof(uint32_t);
    if (!wide && r.getType() != llvm::ELF::R_X86_64_32) continue;
    if (r.getOffset() > bytes.size() || size > bytes.size() - r.getOffset()) continue;
    std::memcpy(bytes.data() + r.getOffset(), &value, size);
  }
}

std::string DebugSections::section(llvm::StringRef name) const {
  std::string bytes;
  for (const llvm::object::SectionRef& s : object_.sections()) {
    if (value_or(s.getName(), llvm::StringRef()) == name) {
      bytes = value_or(s.getContents(), llvm::StringRef()).str();
    }
  }
  for (const llvm::object::SectionRef& s : object_.sections()) {
    auto of = value_or(s.getRelocatedSection(), object_.section_end());
    if (of == object_.section_end()) continue;
    if (value_or(of->getName(), llvm::StringRef()) == name) relocate(s, bytes);
  }
  return bytes;
}

std::vector<CodeLine> DebugSections::lines() const {
  std::string bytes = section(".debug_line");
  return LineProgram(bytes).rows();
}

std::string DebugSections::frames() const { return section(".debug_frame"); }

}  // namespace tile::cpu
