// The CUDA driver, opened at run time: a table of the functions that this backend uses.
#pragma once

#include <cuda.h>

#include <memory>
#include <string>

namespace tile::cuda {

// Each function at the interface of CUDA 12.0, whatever the header's default version of it.
// clang-format off: it does not settle on a column for the ends of these lines.
#define TILE_CUDA_FUNCTIONS(X) \
  X(cuInit) \
  X(cuDriverGetVersion) \
  X(cuGetErrorName) \
  X(cuGetErrorString) \
  X(cuDeviceGetCount) \
  X(cuDeviceGet) \
  X(cuDeviceGetName) \
  X(cuDeviceGetAttribute) \
  X(cuDeviceTotalMem) \
  X(cuDevicePrimaryCtxRetain) \
  X(cuDevicePrimaryCtxRelease) \
  X(cuCtxGetCurrent) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuModuleLoadData) X(cuModuleUnload) \
      X(cuModuleGetFunction) X(cuFuncSetAttribute) X(cuLaunchKernelEx) X(cuStreamCreate) \
          X(cuStreamDestroy) X(cuStreamSynchronize) X(cuEventCreate) X(cuEventRecord) \
              X(cuEventSynchronize) X(cuEventElapsedTime) X(cuEventDestroy) X(cuMemPoolCreate) \
                  X(cuMemPoolDestroy) X(cuMemPoolSetAttribute) X(cuMemPoolTrimTo) \
                      X(cuMemAllocFromPoolAsync) X(cuMemFreeAsync) X(cuMemcpyHtoDAsync) \
                          X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD8Async) \
                              X(cuTensorMapEncodeTiled) X(cuStreamBeginCapture) X(cuStreamIsCapturing) \
                                  X(cuStreamEndCapture) X(cuGraphInstantiateWithFlags) \
                                      X(cuGraphDestroy) X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuCtxSynchronize) \
                                          X(cuMemcpy3DAsync) X(cuEventQuery) X(cuMemHostAlloc) \
                                              X(cuMemFreeHost) X(cuMemPoolSetAccess) \
                                                  X(cuPointerGetAttribute) X(cuDeviceCanAccessPeer) \
                                                      X(cuStreamCreateWithPriority) \
                                                          X(cuCtxGetStreamPriorityRange) \
                                                              X(cuStreamWaitEvent) X(cuStreamBatchMemOp)
// clang-format on

class Driver {
 public:
  // The driver of this process; opened once and kept as long as anyone holds it. TILE_CUDA_DRIVER
  // names another library than libcuda.so.1. Throws Failure (run, "driver") where there is none, it
  // is older than CUDA 12.0 or lacks a function.
  static std::shared_ptr<const Driver> open();

  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  int version() const { return version_; }  // 13000 for CUDA 13.0
  // "CUDA_ERROR_…: its description".
  std::string text(CUresult result) const;
  // Throws Failure (run, "memory" when out of memory, else "cuda") naming `what` was tried.
  void check(CUresult result, const std::string& what) const {
    if (result != CUDA_SUCCESS) failed(result, what);
  }
  [[noreturn]] void failed(CUresult result, const std::string& what) const;

#define TILE_CUDA_MEMBER(name) decltype(&::name) name##_ = nullptr;
  TILE_CUDA_FUNCTIONS(TILE_CUDA_MEMBER)
#undef TILE_CUDA_MEMBER

 private:
  Driver() = default;
  void load();
  void* library_ = nullptr;
  int version_ = 0;
};

}  // namespace tile::cuda
