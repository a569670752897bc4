// A CUDA driver of ours for tests: memory is the host's, kernels run on the CPU where the fake
// NVRTC made them (and do nothing where the real one did), and any call can be told to fail. Each
// device has a context, and modules and streams serve in their own only. The C functions at the end
// steer it.
#include <cstring>

#include "tests/cuda_runtime/fake/driver_calls.h"
#include "tests/cuda_runtime/fake/driver_state.h"

namespace tile_fake {

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
CUresult fake_cuCtxSynchronize() {
  run_all();
  return enter("cuCtxSynchronize");
}

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
  contexts_of_thread().push_back(context);
  return CUDA_SUCCESS;
}
CUresult fake_cuCtxPopCurrent(CUcontext* context) {
  if (contexts_of_thread().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = contexts_of_thread().back();
  contexts_of_thread().pop_back();
  return CUDA_SUCCESS;
}

}  // namespace tile_fake

using namespace tile_fake;

#define EXPORT extern "C" __attribute__((visibility("default")))

#undef cuDriverGetVersion
EXPORT CUresult cuDriverGetVersion(int* version) { return fake_cuDriverGetVersion(version); }
#undef cuGetProcAddress_v2
EXPORT CUresult cuGetProcAddress_v2(const char* name, void** function, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult*) {
  static const std::map<std::string, void*> kTable = {
#define ROW(name) {#name, reinterpret_cast<void*>(&fake_##name)},
      TILE_CUDA_FUNCTIONS(ROW)
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
// Whether devices reach each other's memory.
EXPORT void fake_cuda_peers(int reach) {
  std::lock_guard lock(state().mutex);
  state().reaches_peers = reach != 0;
}
// Every thread keeps from now on what it gives streams; and what this thread has kept.
EXPORT void fake_cuda_trace(int on) {
  std::lock_guard lock(state().mutex);
  state().traces = on != 0;
  if (on == 0) state().traced.clear();
}
EXPORT const char* fake_cuda_traced() {
  std::lock_guard lock(state().mutex);
  return state().traced[std::this_thread::get_id()].text.c_str();
}
// For the NCCL of the tests.
EXPORT void fake_cuda_note(const char* what, CUstream stream) { note(what, stream); }
// Streams run what they are given only when somebody waits for it or looks at events, and then in a
// random order, of this number; 0: at once.
EXPORT void fake_cuda_late(unsigned number) {
  run_all();
  std::lock_guard lock(state().mutex);
  state().late = number != 0;
  state().random.seed(number);
}
// What the stream was given is done, for the NCCL of the tests.
EXPORT void fake_cuda_run(CUstream stream) { run_all_of(stream); }
// Objects of every kind that are made and not destroyed.
EXPORT int fake_cuda_live() {
  run_all();
  std::lock_guard lock(state().mutex);
  size_t count = 0;
  for (const auto& [kind, objects] : state().live) count += objects.size();
  return static_cast<int>(count);
}
