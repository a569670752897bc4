// A CUDA driver of ours for tests: memory is the host's, kernels run on the CPU where the fake
// NVRTC made them (and do nothing where the real one did), and any call can be told to fail. Each
// device has a context, and modules and streams serve in their own only. The C functions at the end
// steer it.
#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/cuda/machine.h"

namespace {

struct Failing {
  int result = 0;
  int after = 0;  // calls that still succeed
};

// TILE_FAKE_GPUS says how many GPUs there are, for programs that no test steers.
int devices_of_environment() {
  const char* text = std::getenv("TILE_FAKE_GPUS");
  return text == nullptr ? 1 : std::atoi(text);
}

struct State {
  std::mutex mutex;
  int version = 13000;
  int devices = devices_of_environment();
  int broken = 0;  // what every call returns once a kernel has failed
  std::map<std::string, Failing> failing;
  std::map<std::string, int> calls;
  std::map<std::string, std::set<void*>> live;
  std::map<void*, size_t> sizes;
  std::set<uint64_t> first_arguments;  // of launches
  std::map<CUdevice, CUcontext> contexts;
  std::map<void*, CUcontext> parallel_dims;  // of modules and streams
  std::map<void*, CUmemoryPool> pools;       // of memory
  std::map<CUevent, int> recorded;           // events, by how many their thread recorded before
  bool holds_events = false;
  using Work = std::vector<std::function<void()>>;
  std::map<CUstream, Work> recording;  // streams that record
  std::map<void*, Work> graphs;        // and what was recorded
  // What was allocated in streams that record, and now is a graph's for all its runs.
  std::map<void*, std::vector<void*>> memory_of_graphs;
};
State& state() {
  static State s;
  return s;
}

CUresult enter(const char* name) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  ++s.calls[name];
  auto it = s.failing.find(name);
  if (it != s.failing.end() && it->second.after-- <= 0) {
    auto result = static_cast<CUresult>(it->second.result);
    s.failing.erase(it);
    return result;
  }
  return static_cast<CUresult>(s.broken);
}
// clang-format off: it does not settle on a column for the ends of these lines.
#define ENTER(name) \
  if (CUresult entered = enter(#name); entered != CUDA_SUCCESS) return entered
// clang-format on

template <class Handle>
CUresult make(const char* kind, Handle* handle) {
  void* object = std::malloc(16);
  std::lock_guard lock(state().mutex);
  state().live[kind].insert(object);
  *handle = static_cast<Handle>(object);
  return CUDA_SUCCESS;
}
CUresult drop(const char* kind, void* object) {
  std::lock_guard lock(state().mutex);
  if (state().live[kind].erase(object) == 0) return CUDA_ERROR_INVALID_HANDLE;
  std::free(object);
  return CUDA_SUCCESS;
}

thread_local std::vector<CUcontext> current;
CUcontext current_context() { return current.empty() ? nullptr : current.back(); }

CUresult fake_cuInit(unsigned) { return enter("cuInit"); }
CUresult fake_cuDriverGetVersion(int* version) {
  *version = state().version;
  return CUDA_SUCCESS;
}
CUresult fake_cuGetErrorName(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_OUT_OF_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == CUDA_ERROR_INVALID_VALUE   ? "CUDA_ERROR_INVALID_VALUE"
                                                : "CUDA_ERROR_OF_A_TEST";
  return CUDA_SUCCESS;
}
CUresult fake_cuGetErrorString(CUresult, const char** text) {
  *text = "as the test asked";
  return CUDA_SUCCESS;
}
bool records(CUstream stream) {
  std::lock_guard lock(state().mutex);
  return state().recording.contains(stream);
}
// Does the work, or records it where the stream does.
void give(CUstream stream, const std::function<void()>& work) {
  std::lock_guard lock(state().mutex);
  auto it = state().recording.find(stream);
  it == state().recording.end() ? work() : it->second.push_back(work);
}
CUresult fake_cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  ENTER(cuStreamBeginCapture);
  std::lock_guard lock(state().mutex);
  state().recording[stream];
  return CUDA_SUCCESS;
}
CUresult fake_cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  ENTER(cuStreamIsCapturing);
  *status = records(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
void hand_on_memory(void* from, void* to) {
  if (auto memory = state().memory_of_graphs.extract(from)) {
    memory.key() = to;
    state().memory_of_graphs.insert(std::move(memory));
  }
}
CUresult fake_cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  CUresult made = make("graph", graph);
  std::lock_guard lock(state().mutex);
  state().graphs[*graph] = std::move(state().recording[stream]);
  state().recording.erase(stream);
  hand_on_memory(stream, *graph);
  return made;
}
CUresult fake_cuGraphInstantiateWithFlags(CUgraphExec* made, CUgraph graph, unsigned long long) {
  ENTER(cuGraphInstantiateWithFlags);
  CUresult result = make("executable graph", made);
  std::lock_guard lock(state().mutex);
  state().graphs[*made] = state().graphs[graph];
  hand_on_memory(graph, *made);
  return result;
}
CUresult fake_cuGraphLaunch(CUgraphExec graph, CUstream) {
  ENTER(cuGraphLaunch);
  std::lock_guard lock(state().mutex);
  for (const std::function<void()>& work : state().graphs[graph]) work();
  return CUDA_SUCCESS;
}
CUresult fake_cuGraphDestroy(CUgraph graph) {
  state().graphs.erase(graph);
  return drop("graph", graph);
}
CUresult drop_memory(void* data) {
  {
    std::lock_guard lock(state().mutex);
    tile_emulation::drop_memory(data);
    state().pools.erase(data);
  }
  return drop("memory", data);
}
CUresult fake_cuGraphExecDestroy(CUgraphExec graph) {
  state().graphs.erase(graph);
  for (void* data : state().memory_of_graphs[graph]) drop_memory(data);
  state().memory_of_graphs.erase(graph);
  return drop("executable graph", graph);
}
CUresult fake_cuCtxSynchronize() { return enter("cuCtxSynchronize"); }

CUresult fake_cuDeviceGetCount(int* count) {
  ENTER(cuDeviceGetCount);
  *count = state().devices;
  return CUDA_SUCCESS;
}
CUresult fake_cuDeviceGet(CUdevice* device, int ordinal) {
  ENTER(cuDeviceGet);
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult fake_cuDeviceGetName(char* name, int size, CUdevice) {
  ENTER(cuDeviceGetName);
  std::strncpy(name, "a device of the tests", static_cast<size_t>(size));
  return CUDA_SUCCESS;
}
CUresult fake_cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  ENTER(cuDeviceGetAttribute);
  if (which == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) {
    *value = device + 1;
    return CUDA_SUCCESS;
  }
  static const std::map<CUdevice_attribute, int> kValues = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 166912},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 167936},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 40 << 20},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1400000},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 24},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1215000},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120}};
  auto it = kValues.find(which);
  *value = it == kValues.end() ? 0 : it->second;
  return CUDA_SUCCESS;
}
CUresult fake_cuDeviceTotalMem(size_t* bytes, CUdevice) {
  *bytes = size_t{1} << 30;
  return CUDA_SUCCESS;
}
CUresult fake_cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  ENTER(cuDevicePrimaryCtxRetain);
  CUresult made = make("context", context);
  std::lock_guard lock(state().mutex);
  state().contexts[device] = *context;
  return made;
}
CUresult fake_cuDevicePrimaryCtxRelease(CUdevice device) {
  CUcontext context = nullptr;
  {
    std::lock_guard lock(state().mutex);
    auto it = state().contexts.find(device);
    if (it == state().contexts.end()) return CUDA_ERROR_INVALID_CONTEXT;
    context = it->second;
    state().contexts.erase(it);
  }
  return drop("context", context);
}
CUresult fake_cuCtxGetCurrent(CUcontext* context) {
  *context = current_context();
  return CUDA_SUCCESS;
}
CUresult fake_cuCtxPushCurrent(CUcontext context) {
  current.push_back(context);
  return CUDA_SUCCESS;
}
CUresult fake_cuCtxPopCurrent(CUcontext* context) {
  if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = current.back();
  current.pop_back();
  return CUDA_SUCCESS;
}

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
  state().parallel_dims[made] = current_context();
  return CUDA_SUCCESS;
}
CUresult fake_cuModuleUnload(CUmodule module) {
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
  auto* kernel = reinterpret_cast<Kernel*>(function);
  for (void* object : {static_cast<void*>(kernel->module), static_cast<void*>(config->hStream)}) {
    std::lock_guard lock(state().mutex);
    auto parallel_dim = state().parallel_dims.find(object);
    bool known = parallel_dim != state().parallel_dims.end();
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

CUresult fake_cuStreamCreate(CUstream* stream, unsigned) {
  ENTER(cuStreamCreate);
  CUresult made = make("stream", stream);
  std::lock_guard lock(state().mutex);
  state().parallel_dims[*stream] = current_context();
  return made;
}
CUresult fake_cuStreamDestroy(CUstream stream) { return drop("stream", stream); }
CUresult fake_cuStreamSynchronize(CUstream stream) {
  if (records(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return enter("cuStreamSynchronize");
}
CUresult fake_cuEventCreate(CUevent* event, unsigned) {
  ENTER(cuEventCreate);
  return make("event", event);
}
CUresult fake_cuEventRecord(CUevent event, CUstream) {
  thread_local int count = 0;
  ENTER(cuEventRecord);
  std::lock_guard lock(state().mutex);
  state().recorded[event] = count++;
  return CUDA_SUCCESS;
}
CUresult fake_cuEventSynchronize(CUevent) { return enter("cuEventSynchronize"); }
CUresult fake_cuEventElapsedTime(float* milliseconds, CUevent, CUevent) {
  ENTER(cuEventElapsedTime);
  *milliseconds = 0.001F;
  return CUDA_SUCCESS;
}
CUresult fake_cuEventDestroy(CUevent event) { return drop("event", event); }
CUresult fake_cuEventQuery(CUevent event) {
  ENTER(cuEventQuery);
  std::lock_guard lock(state().mutex);
  bool held = state().holds_events && state().recorded[event] % 2 != 0;
  return held ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult fake_cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) {
  *can = 1;
  return enter("cuDeviceCanAccessPeer");
}
CUresult fake_cuMemPoolSetAccess(CUmemoryPool, const CUmemAccessDesc*, size_t) {
  return enter("cuMemPoolSetAccess");
}
// Memory of a pool is known by its first byte; any other is cuMemAlloc's.
CUresult fake_cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr pointer) {
  ENTER(cuPointerGetAttribute);
  std::lock_guard lock(state().mutex);
  auto it = state().pools.find(reinterpret_cast<void*>(pointer));
  CUmemoryPool pool = it == state().pools.end() ? nullptr : it->second;
  if (which == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) *static_cast<CUmemoryPool*>(data) = pool;
  if (which == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) {
    *static_cast<int*>(data) = pool == nullptr ? 1 : 0;
  }
  return CUDA_SUCCESS;
}
CUresult fake_cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  ENTER(cuMemHostAlloc);
  *memory = std::malloc(bytes);
  tile_emulation::fill_with_nonsense(*memory, bytes);
  std::lock_guard lock(state().mutex);
  state().live["page-locked memory"].insert(*memory);
  return CUDA_SUCCESS;
}
CUresult fake_cuMemFreeHost(void* memory) { return drop("page-locked memory", memory); }

CUresult fake_cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps*) {
  ENTER(cuMemPoolCreate);
  return make("pool", pool);
}
CUresult fake_cuMemPoolDestroy(CUmemoryPool pool) { return drop("pool", pool); }
CUresult fake_cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) {
  return CUDA_SUCCESS;
}
CUresult fake_cuMemPoolTrimTo(CUmemoryPool, size_t) { return enter("cuMemPoolTrimTo"); }
CUresult fake_cuMemAllocFromPoolAsync(CUdeviceptr* memory, size_t bytes, CUmemoryPool pool,
                                      CUstream stream) {
  ENTER(cuMemAllocFromPoolAsync);
  bool recorded = records(stream);
  void* data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  tile_emulation::fill_with_nonsense(data, bytes);
  std::lock_guard lock(state().mutex);
  tile_emulation::add_memory(data, bytes);
  state().live["memory"].insert(data);
  if (recorded) state().memory_of_graphs[stream].push_back(data);
  state().pools[data] = pool;
  *memory = reinterpret_cast<CUdeviceptr>(data);
  return CUDA_SUCCESS;
}
CUresult fake_cuMemFreeAsync(CUdeviceptr memory, CUstream) {
  auto* data = reinterpret_cast<void*>(memory);
  for (const auto& [graph, all] : state().memory_of_graphs) {
    if (std::find(all.begin(), all.end(), data) != all.end()) return CUDA_SUCCESS;
  }
  return drop_memory(data);
}
CUresult fake_cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream) {
  ENTER(cuMemcpyHtoDAsync);
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return CUDA_SUCCESS;
}
CUresult fake_cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream) {
  ENTER(cuMemcpyDtoHAsync);
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult fake_cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ENTER(cuMemcpyDtoDAsync);
  give(stream, [=] {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
  return CUDA_SUCCESS;
}
CUresult fake_cuMemcpy3DAsync(const CUDA_MEMCPY3D* given, CUstream stream) {
  ENTER(cuMemcpy3DAsync);
  CUDA_MEMCPY3D c = *given;
  bool device = c.srcMemoryType == CU_MEMORYTYPE_DEVICE && c.dstMemoryType == CU_MEMORYTYPE_DEVICE;
  bool fits = c.srcPitch >= c.WidthInBytes && c.dstPitch >= c.WidthInBytes &&
              (c.Depth == 1 || (c.srcHeight >= c.Height && c.dstHeight >= c.Height));
  if (!device || !fits) return CUDA_ERROR_INVALID_VALUE;
  give(stream, [=] {
    for (size_t z = 0; z < c.Depth; ++z) {
      for (size_t y = 0; y < c.Height; ++y) {
        std::memcpy(reinterpret_cast<char*>(c.dstDevice) + (z * c.dstHeight + y) * c.dstPitch,
                    reinterpret_cast<const char*>(c.srcDevice) + (z * c.srcHeight + y) * c.srcPitch,
                    c.WidthInBytes);
      }
    }
  });
  return CUDA_SUCCESS;
}
CUresult fake_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  ENTER(cuMemsetD8Async);
  give(stream, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return CUDA_SUCCESS;
}
CUresult fake_cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void*,
                                     const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                     const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                     CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  ENTER(cuTensorMapEncodeTiled);
  std::memset(map, 0, sizeof *map);
  return CUDA_SUCCESS;
}

// clang-format off: it does not settle on a column for the ends of these lines.
#define FAKES(X) \
  X(cuInit) \
  X(cuDriverGetVersion) \
  X(cuGetErrorName) \
  X(cuGetErrorString) \
  X(cuDeviceGetCount) \
  X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDeviceTotalMem) \
      X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxGetCurrent) \
          X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuModuleLoadData) X(cuModuleUnload) \
              X(cuModuleGetFunction) X(cuFuncSetAttribute) X(cuLaunchKernelEx) X(cuStreamCreate) \
                  X(cuStreamDestroy) X(cuStreamSynchronize) X(cuEventCreate) X(cuEventRecord) \
                      X(cuEventSynchronize) X(cuEventElapsedTime) X(cuEventDestroy) \
                          X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemPoolSetAttribute) \
                              X(cuMemPoolTrimTo) X(cuMemAllocFromPoolAsync) X(cuMemFreeAsync) \
                                  X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) \
                                      X(cuMemsetD8Async) X(cuTensorMapEncodeTiled) \
                                          X(cuStreamBeginCapture) X(cuStreamIsCapturing) X(cuStreamEndCapture) \
                                              X(cuGraphInstantiateWithFlags) X(cuGraphDestroy) \
                                                  X(cuGraphLaunch) X(cuGraphExecDestroy) \
                                                      X(cuCtxSynchronize) X(cuMemcpy3DAsync) \
                                                          X(cuEventQuery) X(cuMemHostAlloc) \
                                                              X(cuMemFreeHost) X(cuMemPoolSetAccess) \
                                                                  X(cuPointerGetAttribute) \
                                                                      X(cuDeviceCanAccessPeer)
// clang-format on

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

#undef cuDriverGetVersion
EXPORT CUresult cuDriverGetVersion(int* version) { return fake_cuDriverGetVersion(version); }
#undef cuGetProcAddress_v2
EXPORT CUresult cuGetProcAddress_v2(const char* name, void** function, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult*) {
  static const std::map<std::string, void*> kTable = {
#define ROW(name) {#name, reinterpret_cast<void*>(&fake_##name)},
      FAKES(ROW)
#undef ROW
  };
  auto it = kTable.find(name);
  *function = it == kTable.end() ? nullptr : it->second;
  return it == kTable.end() ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

// The call of this name returns `result` after `after` more successes, once.
EXPORT void fake_cuda_fail(const char* name, int result, int after) {
  std::lock_guard lock(state().mutex);
  state().failing[name] = {result, after};
}
// Every call returns `result`, as after a kernel that failed; 0: works again.
EXPORT void fake_cuda_break(int result) { state().broken = result; }
// Of the events that each thread records every second one is not seen to be reached, until it is
// said otherwise: the ends of a link's exchanges.
EXPORT void fake_cuda_hold_events(int hold) {
  std::lock_guard lock(state().mutex);
  state().holds_events = hold != 0;
}
EXPORT void fake_cuda_set(int version, int devices) {
  state().version = version;
  state().devices = devices;
}
EXPORT int fake_cuda_calls(const char* name) {
  std::lock_guard lock(state().mutex);
  return state().calls[name];
}
// A recording of what `stream` is given from now on; and its end: null where it was lost.
EXPORT void fake_cuda_record(void* stream) {
  fake_cuStreamBeginCapture(static_cast<CUstream>(stream), CU_STREAM_CAPTURE_MODE_GLOBAL);
}
EXPORT void* fake_cuda_recorded(void* stream) {
  CUgraph graph = nullptr;
  CUgraphExec made = nullptr;
  if (fake_cuStreamEndCapture(static_cast<CUstream>(stream), &graph) != CUDA_SUCCESS)
    return nullptr;
  if (fake_cuGraphInstantiateWithFlags(&made, graph, 0) != CUDA_SUCCESS) return nullptr;
  fake_cuGraphDestroy(graph);
  return made;
}
EXPORT void fake_cuda_run_recording(void* recording) {
  fake_cuGraphLaunch(static_cast<CUgraphExec>(recording), nullptr);
}
EXPORT void fake_cuda_drop_recording(void* recording) {
  fake_cuGraphExecDestroy(static_cast<CUgraphExec>(recording));
}
// How many different first arguments launches had since the last question.
EXPORT int fake_cuda_first_arguments() {
  std::lock_guard lock(state().mutex);
  auto count = static_cast<int>(state().first_arguments.size());
  state().first_arguments.clear();
  return count;
}
// Objects of every kind that are made and not destroyed.
EXPORT int fake_cuda_live() {
  std::lock_guard lock(state().mutex);
  size_t count = 0;
  for (const auto& [kind, objects] : state().live) count += objects.size();
  return static_cast<int>(count);
}
