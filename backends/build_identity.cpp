#include "backends/build_identity.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>

namespace tile {
namespace {

struct Module {
  uintptr_t address;
  std::string build_id;
};

// The GNU build id among a loaded file's notes.
std::string find_build_id(const char* at, size_t size) {
  constexpr char kHex[] = "0123456789abcdef";
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    size_t name = (note.n_namesz + 3) & ~size_t{3}, data = (note.n_descsz + 3) & ~size_t{3};
    if (size < sizeof note + name + data) break;
    const char* begin = at + sizeof note;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(begin, "GNU", 4) == 0) {
      std::string id;
      for (size_t i = 0; i < note.n_descsz; ++i) {
        auto byte = static_cast<unsigned char>(begin[name + i]);
        id += {kHex[byte >> 4], kHex[byte & 15]};
      }
      return id;
    }
    at += sizeof note + name + data;
    size -= sizeof note + name + data;
  }
  return "";
}

int visit_module(dl_phdr_info* info, size_t, void* data) {
  auto* wanted = static_cast<Module*>(data);
  bool inside = false;
  std::string id;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD) {
      inside = inside || (wanted->address >= begin && wanted->address < begin + header.p_memsz);
    } else if (header.p_type == PT_NOTE && id.empty()) {
      id = find_build_id(reinterpret_cast<const char*>(begin), header.p_memsz);
    }
  }
  if (inside) wanted->build_id = id;
  return inside ? 1 : 0;
}

}  // namespace

std::string build_identity() {
  Module wanted{reinterpret_cast<uintptr_t>(&build_identity), ""};
  dl_iterate_phdr(visit_module, &wanted);
  if (!wanted.build_id.empty()) return wanted.build_id;
  Dl_info info{};
  struct stat status{};
  void* here = reinterpret_cast<void*>(&build_identity);
  if (dladdr(here, &info) == 0 || stat(info.dli_fname, &status) != 0) return "unknown";
  return std::to_string(status.st_size) + "-" + std::to_string(status.st_mtim.tv_sec) + "-" +
         std::to_string(status.st_mtim.tv_nsec);
}

}  // namespace tile
