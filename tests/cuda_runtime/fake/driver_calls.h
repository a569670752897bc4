// The calls of the driver that the fake one has, by the names that the real one has for them.
#pragma once

#include <cuda.h>

// clang-format off: one call a line.
#define TILE_FAKE_CALLS(X) \
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
  X(cuCtxGetCurrent) \
  X(cuCtxPushCurrent) \
  X(cuCtxPopCurrent) \
  X(cuModuleLoadData) \
  X(cuModuleUnload) \
  X(cuModuleGetFunction) \
  X(cuFuncSetAttribute) \
  X(cuLaunchKernelEx) \
  X(cuStreamCreate) \
  X(cuStreamDestroy) \
  X(cuStreamSynchronize) \
  X(cuEventCreate) \
  X(cuEventRecord) \
  X(cuEventSynchronize) \
  X(cuEventElapsedTime) \
  X(cuEventDestroy) \
  X(cuMemPoolCreate) \
  X(cuMemPoolDestroy) \
  X(cuMemPoolSetAttribute) \
  X(cuMemPoolTrimTo) \
  X(cuMemAllocFromPoolAsync) \
  X(cuMemFreeAsync) \
  X(cuMemcpyHtoDAsync) \
  X(cuMemcpyDtoHAsync) \
  X(cuMemcpyDtoDAsync) \
  X(cuMemsetD8Async) \
  X(cuTensorMapEncodeTiled) \
  X(cuStreamBeginCapture) \
  X(cuStreamIsCapturing) \
  X(cuStreamEndCapture) \
  X(cuGraphInstantiateWithFlags) \
  X(cuGraphDestroy) \
  X(cuGraphLaunch) \
  X(cuGraphExecDestroy) \
  X(cuCtxSynchronize) \
  X(cuMemcpy3DAsync) \
  X(cuEventQuery) \
  X(cuMemHostAlloc) \
  X(cuMemFreeHost) \
  X(cuMemPoolSetAccess) \
  X(cuPointerGetAttribute) \
  X(cuDeviceCanAccessPeer)
// clang-format on

namespace tile_fake {
#define TILE_FAKE_DECLARE(name) decltype(::name) fake_##name;
TILE_FAKE_CALLS(TILE_FAKE_DECLARE)
#undef TILE_FAKE_DECLARE
}  // namespace tile_fake
