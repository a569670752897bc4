#include "backends/cuda/driver/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

// Stream-ordered pools, clusters and tensor maps are all there from this version on.
constexpr int kLeastVersion = 12000;

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

[[noreturn]] void no_driver(const std::string& why) {
  fail(Stage::run, "driver", {}, "the CUDA driver cannot be used: " + why,
       "install NVIDIA's driver for CUDA 12.0 or newer, or use the cpu backend");
}

using GetVersion = CUresult (*)(int*);
using GetAddress = CUresult (*)(const char*, void**, int, cuuint64_t, void*);

}  // namespace

std::shared_ptr<const Driver> Driver::open() {
  static std::mutex mutex;
  static std::weak_ptr<const Driver> known;
  std::lock_guard lock(mutex);
  std::shared_ptr<const Driver> driver = known.lock();
  if (driver) return driver;
  std::shared_ptr<Driver> made(new Driver);
  made->load();
  known = made;
  return made;
}

void Driver::load() {
  const char* given = std::getenv("TILE_CUDA_DRIVER");
  const char* name = given != nullptr && *given != '\0' ? given : "libcuda.so.1";
  library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) no_driver(dlerror());
  // dlsym, for the version: the way to every other function may be missing in an old driver.
  auto get_version = reinterpret_cast<GetVersion>(dlsym(library_, "cuDriverGetVersion"));
  if (get_version == nullptr || get_version(&version_) != CUDA_SUCCESS) {
    no_driver(std::string(name) + " does not tell its version");
  }
  if (version_ < kLeastVersion) {
    no_driver("it supports CUDA " + version_text(version_) + ", and this backend needs " +
              version_text(kLeastVersion));
  }
  auto address = reinterpret_cast<GetAddress>(dlsym(library_, "cuGetProcAddress_v2"));
  if (address == nullptr) no_driver(std::string(name) + " has no cuGetProcAddress_v2");
#define TILE_CUDA_LOAD(function)                                                           \
  {                                                                                        \
    void* found = nullptr;                                                                 \
    if (address(#function, &found, kLeastVersion, 0, nullptr) != CUDA_SUCCESS || !found) { \
      no_driver(std::string(name) + " has no " #function);                                 \
    }                                                                                      \
    function##_ = reinterpret_cast<decltype(function##_)>(found);                          \
  }
  TILE_CUDA_FUNCTIONS(TILE_CUDA_LOAD)
#undef TILE_CUDA_LOAD
  CUresult started = cuInit_(0);
  if (started != CUDA_SUCCESS) no_driver("cuInit: " + text(started));
}

// The library stays mapped: the driver does not bear being unloaded while its threads run.
Driver::~Driver() = default;

std::string Driver::text(CUresult result) const {
  const char* name = nullptr;
  const char* description = nullptr;
  cuGetErrorName_(result, &name);
  cuGetErrorString_(result, &description);
  std::string out = name != nullptr ? name : "CUDA error " + std::to_string(result);
  if (description != nullptr) out += std::string(" (") + description + ")";
  return out;
}

void Driver::failed(CUresult result, const std::string& what) const {
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    fail(Stage::run, "memory", {}, "the GPU is out of memory: " + what,
         "free tensors on the device, or run smaller shapes");
  }
  fail(Stage::run, "cuda", {}, what + ": " + text(result));
}

}  // namespace tile::cuda
