#include "backends/cpu/jit/object_linker.h"

#include <elf.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "backends/cpu/jit/code_pool.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

// What the object has that is not linked here.
struct Unknown {};

// All blocks of this linker. Never destroyed: code may run while the process ends.
CodePool& pool() {
  static CodePool& all = *new CodePool;
  return all;
}

// Functions of the C library that code calls: copies and fills of memory, which LLVM makes without
// being told to, and what it has no instructions for: multiply-adds of processors without them, and
// functions of f64.
using Functions = std::map<std::string_view, void*>;

template <class T, class... Parameters>
void* address_of(T (*function)(Parameters...)) {
  return reinterpret_cast<void*>(function);
}

template <class T>
void add_mathematics(Functions& all, std::array<std::string_view, 15> names) {
  using One = T (*)(T);
  using Two = T (*)(T, T);
  using Three = T (*)(T, T, T);
  const std::array<void*, 15> addresses{
      address_of(static_cast<One>(std::sin)),  address_of(static_cast<One>(std::cos)),
      address_of(static_cast<One>(std::exp)),  address_of(static_cast<One>(std::exp2)),
      address_of(static_cast<One>(std::log)),  address_of(static_cast<One>(std::log2)),
      address_of(static_cast<One>(std::tanh)), address_of(static_cast<One>(std::floor)),
      address_of(static_cast<One>(std::ceil)), address_of(static_cast<One>(std::trunc)),
      address_of(static_cast<One>(std::rint)), address_of(static_cast<One>(std::sqrt)),
      address_of(static_cast<Two>(std::pow)),  address_of(static_cast<Two>(std::fmod)),
      address_of(static_cast<Three>(std::fma))};
  for (size_t i = 0; i < names.size(); ++i) all.emplace(names[i], addresses[i]);
}

Functions library_functions() {
  using Copy = void* (*)(void*, const void*, size_t);
  using Fill = void* (*)(void*, int, size_t);
  Functions all{{"memcpy", address_of(static_cast<Copy>(std::memcpy))},
                {"memmove", address_of(static_cast<Copy>(std::memmove))},
                {"memset", address_of(static_cast<Fill>(std::memset))}};
  add_mathematics<double>(all, {"sin", "cos", "exp", "exp2", "log", "log2", "tanh", "floor", "ceil",
                                "trunc", "rint", "sqrt", "pow", "fmod", "fma"});
  add_mathematics<float>(all, {"sinf", "cosf", "expf", "exp2f", "logf", "log2f", "tanhf", "floorf",
                               "ceilf", "truncf", "rintf", "sqrtf", "powf", "fmodf", "fmaf"});
  return all;
}

void* library_function(std::string_view name) {
  static const Functions kAll = library_functions();
  auto found = kAll.find(name);
  if (found == kAll.end()) throw Unknown{};
  return found->second;
}

class Block : public LinkedCode {
 public:
  explicit Block(size_t bytes) : memory_(pool().allocate(bytes)) {
    if (memory_ == nullptr) throw std::bad_alloc();
  }
  ~Block() override { pool().release(memory_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::byte* memory() const { return memory_; }
  void add(std::string symbol, void* address) { symbols_.emplace(std::move(symbol), address); }
  void seal() const {
    if (!pool().seal(memory_)) throw std::bad_alloc();
  }
  void* address(const std::string& symbol) override {
    auto at = symbols_.find(symbol);
    if (at == symbols_.end()) {
      fail(Stage::compile, "backend", {}, "the object has no function " + symbol);
    }
    return at->second;
  }

 private:
  std::byte* memory_;
  std::map<std::string, void*> symbols_;
};

// The bytes of an object, read within their bounds.
class ObjectFile {
 public:
  explicit ObjectFile(std::span<const char> bytes) : bytes_(bytes) {
    header_ = at<Elf64_Ehdr>(0);
    bool mine = std::memcmp(header_.e_ident, ELFMAG, SELFMAG) == 0 &&
                header_.e_ident[EI_CLASS] == ELFCLASS64 &&
                header_.e_ident[EI_DATA] == ELFDATA2LSB && header_.e_type == ET_REL &&
                header_.e_machine == EM_X86_64 && header_.e_shentsize == sizeof(Elf64_Shdr);
    if (!mine) throw Unknown{};
    for (size_t i = 0; i < header_.e_shnum; ++i) {
      sections_.push_back(at<Elf64_Shdr>(header_.e_shoff + i * sizeof(Elf64_Shdr)));
    }
  }

  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  const Elf64_Shdr& names() const { return section(header_.e_shstrndx); }
  const Elf64_Shdr& section(size_t i) const {
    if (i >= sections_.size()) throw Unknown{};
    return sections_[i];
  }
  std::span<const char> content(const Elf64_Shdr& of) const {
    if (of.sh_offset > bytes_.size() || of.sh_size > bytes_.size() - of.sh_offset) throw Unknown{};
    return bytes_.subspan(of.sh_offset, of.sh_size);
  }
  // The entries of a table.
  template <class Entry>
  std::vector<Entry> entries(const Elf64_Shdr& of) const {
    std::span<const char> raw = content(of);
    std::vector<Entry> list(raw.size() / sizeof(Entry));
    if (!list.empty()) std::memcpy(list.data(), raw.data(), list.size() * sizeof(Entry));
    return list;
  }
  std::string text(const Elf64_Shdr& table, size_t offset) const {
    std::span<const char> all = content(table);
    if (offset >= all.size()) throw Unknown{};
    all = all.subspan(offset);
    const void* end = std::memchr(all.data(), 0, all.size());
    if (end == nullptr) throw Unknown{};
    return {all.data(), static_cast<const char*>(end)};
  }

 private:
  template <class T>
  T at(size_t offset) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (offset > bytes_.size() || sizeof(T) > bytes_.size() - offset) throw Unknown{};
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }

  std::span<const char> bytes_;
  Elf64_Ehdr header_;
  std::vector<Elf64_Shdr> sections_;
};

// Calls reach 2 GiB: a function that is further away is called by a jump that stands beside the
// code, `jmp *0(%rip)` and the address behind it.
constexpr std::array<uint8_t, 6> kJump = {0xff, 0x25, 0, 0, 0, 0};
constexpr size_t kStubBytes = 16;

class Linker {
 public:
  explicit Linker(std::span<const char> object) : file_(object) {}

  std::unique_ptr<LinkedCode> link() {
    lay_out();
    read_symbols();
    block_ = std::make_unique<Block>(bytes_ + stubs_.size() * kStubBytes);
    copy_sections();
    make_stubs();
    for (const Elf64_Shdr& s : file_.sections()) {
      if (s.sh_type == SHT_RELA && offsets_.contains(s.sh_info)) relocate(s);
      if (s.sh_type == SHT_REL) throw Unknown{};
    }
    for (size_t i = 0; i < symbols_.size(); ++i) {
      bool function = ELF64_ST_BIND(symbols_[i].st_info) == STB_GLOBAL && is_defined(symbols_[i]);
      if (function) block_->add(name_of(symbols_[i]), address_of(i));
    }
    block_->seal();
    return std::move(block_);
  }

 private:
  // Frames of functions serve exceptions and debuggers, and nothing is thrown through kernels.
  bool is_loaded(const Elf64_Shdr& s) const {
    if ((s.sh_flags & SHF_ALLOC) == 0 || s.sh_size == 0 || s.sh_type == SHT_X86_64_UNWIND) {
      return false;
    }
    return file_.text(file_.names(), s.sh_name) != ".eh_frame";
  }

  // One section after the other in one block: constants lie beside the code that reads them.
  void lay_out() {
    for (size_t i = 0; i < file_.sections().size(); ++i) {
      const Elf64_Shdr& s = file_.sections()[i];
      if (!is_loaded(s)) continue;
      bool plain = s.sh_type == SHT_PROGBITS && (s.sh_flags & (SHF_WRITE | SHF_TLS)) == 0 &&
                   s.sh_addralign <= CodePool::kPage;
      if (!plain) throw Unknown{};
      size_t unit = s.sh_addralign == 0 ? 1 : s.sh_addralign;
      bytes_ = (bytes_ + unit - 1) / unit * unit;
      offsets_[i] = bytes_;
      bytes_ += file_.content(s).size();
    }
    bytes_ = (bytes_ + kStubBytes - 1) / kStubBytes * kStubBytes;
  }

  void read_symbols() {
    for (const Elf64_Shdr& s : file_.sections()) {
      if (s.sh_type != SHT_SYMTAB) continue;
      if (!symbols_.empty()) throw Unknown{};
      symbols_ = file_.entries<Elf64_Sym>(s);
      names_ = file_.section(s.sh_link);
    }
    for (size_t i = 1; i < symbols_.size(); ++i) {
      const Elf64_Sym& symbol = symbols_[i];
      if (is_defined(symbol) && symbol.st_value > file_.section(symbol.st_shndx).sh_size) {
        throw Unknown{};
      }
      bool outside = symbol.st_shndx == SHN_UNDEF && symbol.st_name != 0;
      if (outside) stubs_.emplace(i, library_function(name_of(symbol)));
    }
  }
  std::string name_of(const Elf64_Sym& symbol) const { return file_.text(names_, symbol.st_name); }
  bool is_defined(const Elf64_Sym& symbol) const { return offsets_.contains(symbol.st_shndx); }

  void copy_sections() const {
    for (auto [i, offset] : offsets_) {
      std::span<const char> bytes = file_.content(file_.sections()[i]);
      std::memcpy(block_->memory() + offset, bytes.data(), bytes.size());
    }
  }
  void make_stubs() {
    std::byte* at = block_->memory() + bytes_;
    for (auto& [symbol, function] : stubs_) {
      std::memcpy(at, kJump.data(), kJump.size());
      std::memcpy(at + kJump.size(), &function, sizeof function);
      function = at;
      at += kStubBytes;
    }
  }
  std::byte* address_of(size_t symbol) const {
    if (symbol >= symbols_.size()) throw Unknown{};
    if (auto stub = stubs_.find(symbol); stub != stubs_.end()) {
      return static_cast<std::byte*>(stub->second);
    }
    const Elf64_Sym& s = symbols_[symbol];
    if (!is_defined(s)) throw Unknown{};
    return block_->memory() + offsets_.at(s.st_shndx) + s.st_value;
  }

  void relocate(const Elf64_Shdr& table) const {
    size_t size = file_.section(table.sh_info).sh_size;
    std::byte* base = block_->memory() + offsets_.at(table.sh_info);
    for (const Elf64_Rela& r : file_.entries<Elf64_Rela>(table)) {
      auto put = [&](auto value) {
        if (r.r_offset > size || sizeof value > size - r.r_offset) throw Unknown{};
        std::memcpy(base + r.r_offset, &value, sizeof value);
      };
      // As addresses wrap.
      uint64_t target = reinterpret_cast<uintptr_t>(address_of(ELF64_R_SYM(r.r_info))) +
                        static_cast<uint64_t>(r.r_addend);
      auto distance = static_cast<int64_t>(target - reinterpret_cast<uintptr_t>(base) - r.r_offset);
      switch (ELF64_R_TYPE(r.r_info)) {
        case R_X86_64_NONE:
          break;
        case R_X86_64_64:
          put(target);
          break;
        case R_X86_64_PC64:
          put(distance);
          break;
        case R_X86_64_PC32:
        case R_X86_64_PLT32:
          if (distance != static_cast<int32_t>(distance)) throw Unknown{};
          put(static_cast<int32_t>(distance));
          break;
        default:
          throw Unknown{};
      }
    }
  }

  ObjectFile file_;
  std::map<size_t, size_t> offsets_;  // in the block, of the sections that are loaded
  size_t bytes_ = 0;                  // of them
  std::vector<Elf64_Sym> symbols_;
  Elf64_Shdr names_{};
  std::map<size_t, void*> stubs_;  // by symbol: a function outside, then the jump to it
  std::unique_ptr<Block> block_;
};

}  // namespace

std::unique_ptr<LinkedCode> link_object(std::span<const char> object) {
#if defined(__x86_64__)
  try {
    return Linker(object).link();
  } catch (const Unknown&) {
    return nullptr;
  }
#else
  static_cast<void>(object);
  return nullptr;
#endif
}

}  // namespace tile::cpu
