#include "backends/cuda/ranks/nccl.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

#include "backends/cuda/driver/find_library.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

// Communicators that do not block are there from this version on.
constexpr int kLeastVersion = 21400;
const LibraryNames kLibrary{"TILE_NCCL", {"libnccl.so.2"}, {"nccl"}};

}  // namespace

std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

std::shared_ptr<const Nccl> Nccl::open(std::string& why) {
  static std::mutex mutex;
  static std::weak_ptr<const Nccl> known;
  const char* given = std::getenv("TILE_NCCL");
  if (given != nullptr && std::string(given) == "off") {
    why = "TILE_NCCL is off";
    return nullptr;
  }
  std::lock_guard lock(mutex);
  if (std::shared_ptr<const Nccl> nccl = known.lock()) return nccl;
  std::string first;
  for (const std::string& path : places_of(kLibrary)) {
    std::shared_ptr<Nccl> nccl(new Nccl);
    if (nccl->load(path, why)) {
      known = nccl;
      return nccl;
    }
    if (first.empty()) first = why;
  }
  why = "no NCCL is found: " + first;
  return nullptr;
}

// A name without a folder is that of a library of the process, where it has one of this name.
bool Nccl::load(const std::string& path, std::string& why) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    why = dlerror();
    return false;
  }
#define TILE_NCCL_LOAD(name, ...)                                       \
  name##_ = reinterpret_cast<decltype(name##_)>(dlsym(library, #name)); \
  if (name##_ == nullptr) {                                             \
    why = path + " has no " #name;                                      \
    return false;                                                       \
  }
  TILE_NCCL_FUNCTIONS(TILE_NCCL_LOAD)
#undef TILE_NCCL_LOAD
  if (ncclGetVersion_(&version_) != kNcclSuccess || version_ < kLeastVersion) {
    why = path + " is NCCL " + nccl_version_text(version_) + "; 2.14 is needed";
    return false;
  }
  return true;
}

void Nccl::check(int result, NcclComm comm, const std::string& what) const {
  if (result == kNcclSuccess || result == kNcclInProgress) return;
  std::string text = what + ": " + ncclGetErrorString_(result);
  const char* more = ncclGetLastError_(comm);
  if (more != nullptr && *more != '\0') text += std::string(" (") + more + ")";
  fail(Stage::run, "nccl", {}, text);
}

}  // namespace tile::cuda
