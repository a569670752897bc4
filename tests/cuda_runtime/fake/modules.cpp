// Modules, which are libraries of the CPU where the fake NVRTC made them, and launches.
#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/cuda/machine.h"
#include "tests/cuda_runtime/fake/driver_calls.h"
#include "tests/cuda_runtime/fake/driver_state.h"

namespace tile_fake {
namespace {

struct Kernel;
struct Module {
  void* library = nullptr;  // null: machine code of a real GPU
  std::vector<Kernel*> kernels;
};
struct Kernel {
  Module* module;
  void (*function)();
  int arguments;
};

// Bytes of an ELF image: the table of sections is its end.
size_t image_size(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  return header.e_shoff + size_t{header.e_shnum} * header.e_shentsize;
}
void* open_library(const void* image) {
  char path[] = "/tmp/tile-fake-XXXXXX";
  int file = mkstemp(path);
  if (file < 0) return nullptr;
  size_t size = image_size(image);
  bool written = write(file, image, size) == static_cast<ssize_t>(size);
  close(file);
  void* library = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path);
  return library;
}

}  // namespace

CUresult fake_cuModuleLoadData(CUmodule* module, const void* image) {
  ENTER(cuModuleLoadData);
  auto* made = new Module;
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    delete made;
    return CUDA_ERROR_INVALID_IMAGE;
  }
  if (header.e_machine == EM_X86_64) {
    made->library = open_library(image);
    if (made->library == nullptr) {
      delete made;
      return CUDA_ERROR_INVALID_IMAGE;
    }
  }
  *module = reinterpret_cast<CUmodule>(made);
  std::lock_guard lock(state().mutex);
  state().live["module"].insert(made);
  state().owners[made] = current_context();
  return CUDA_SUCCESS;
}
CUresult fake_cuModuleUnload(CUmodule module) {
  run_all();
  auto* m = reinterpret_cast<Module*>(module);
  std::lock_guard lock(state().mutex);
  if (state().live["module"].erase(m) == 0) return CUDA_ERROR_INVALID_HANDLE;
  for (Kernel* kernel : m->kernels) delete kernel;
  if (m->library != nullptr) dlclose(m->library);
  delete m;
  return CUDA_SUCCESS;
}
CUresult fake_cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  ENTER(cuModuleGetFunction);
  auto* m = reinterpret_cast<Module*>(module);
  auto* kernel = new Kernel{m, nullptr, 0};
  m->kernels.push_back(kernel);
  if (m->library != nullptr) {
    kernel->function = reinterpret_cast<void (*)()>(dlsym(m->library, name));
    if (kernel->function == nullptr) return CUDA_ERROR_NOT_FOUND;
  }
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
CUresult fake_cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return enter("cuFuncSetAttribute");
}
// The real call knows how many parameters a kernel has; here the null pointer after the last tells.
CUresult fake_cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** values,
                               void**) {
  ENTER(cuLaunchKernelEx);
  if (config->hStream == CU_STREAM_PER_THREAD) enter("stream of the thread");
  note("launch", config->hStream);
  auto* kernel = reinterpret_cast<Kernel*>(function);
  for (void* object : {static_cast<void*>(kernel->module), static_cast<void*>(config->hStream)}) {
    std::lock_guard lock(state().mutex);
    auto parallel_dim = state().owners.find(object);
    bool known = parallel_dim != state().owners.end();
    if (known && parallel_dim->second != current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  }
  unsigned threads = config->blockDimX * config->blockDimY * config->blockDimZ;
  bool fits = threads > 0 && threads <= 1024 && config->blockDimZ <= 64 && config->gridDimX > 0 &&
              config->gridDimY > 0 && config->gridDimY <= 65535 && config->gridDimZ > 0 &&
              config->gridDimZ <= 65535;
  if (!fits) return CUDA_ERROR_INVALID_VALUE;
  if (values[0] != nullptr) {
    std::lock_guard lock(state().mutex);
    state().first_arguments.insert(*static_cast<uint64_t*>(values[0]));
  }
  if (kernel->module->library == nullptr) return CUDA_SUCCESS;
  std::vector<uint64_t> kept;  // emulated kernels have pointers and 64-bit parameters
  while (values[kept.size()] != nullptr) {
    kept.push_back(*static_cast<uint64_t*>(values[kept.size()]));
  }
  unsigned blocks = 1;  // of a cluster
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    blocks = attribute.value.clusterDim.x;
  }
  give(config->hStream, [kernel, kept, blocks, launch = *config]() mutable {
    std::vector<void*> pointers;
    for (uint64_t& value : kept) pointers.push_back(&value);
    unsigned grid[3] = {launch.gridDimX, launch.gridDimY, launch.gridDimZ};
    unsigned block[3] = {launch.blockDimX, launch.blockDimY, launch.blockDimZ};
    const char* wrong =
        tile_emulation::emulate(kernel->function, static_cast<int>(pointers.size()),
                                pointers.data(), grid, block, launch.sharedMemBytes, blocks);
    if (wrong == nullptr) return;
    std::fprintf(stderr, "emulation: %s", wrong);
    state().broken = CUDA_ERROR_LAUNCH_FAILED;
  });
  return CUDA_SUCCESS;
}

}  // namespace tile_fake
