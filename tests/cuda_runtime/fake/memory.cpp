// Memory, pools and copies: all of them the host's.
#include <algorithm>
#include <cstring>

#include "tests/cuda/machine.h"
#include "tests/cuda_runtime/fake/driver_calls.h"
#include "tests/cuda_runtime/fake/driver_state.h"

namespace tile_fake {
namespace {

bool runs_late(CUstream stream) {
  std::lock_guard lock(state().mutex);
  return is_behind(stream) && !state().recording.contains(stream);
}
size_t size_of(void* memory) {
  std::lock_guard lock(state().mutex);
  return state().sizes[memory];
}
bool is_page_locked(const void* address) {
  std::lock_guard lock(state().mutex);
  const auto* at = static_cast<const char*>(address);
  for (void* memory : state().live["page-locked memory"]) {
    const auto* first = static_cast<const char*>(memory);
    if (at >= first && at < first + state().sizes[memory]) return true;
  }
  return false;
}

}  // namespace

CUresult fake_cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) {
  *can = state().reaches_peers ? 1 : 0;
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
  state().sizes[*memory] = bytes;
  return CUDA_SUCCESS;
}
CUresult fake_cuMemFreeHost(void* memory) {
  run_all();
  return drop("page-locked memory", memory);
}

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
  state().sizes[data] = bytes;
  *memory = reinterpret_cast<CUdeviceptr>(data);
  return CUDA_SUCCESS;
}
CUresult fake_cuMemFreeAsync(CUdeviceptr memory, CUstream stream) {
  auto* data = reinterpret_cast<void*>(memory);
  {
    std::lock_guard lock(state().mutex);
    for (const auto& [graph, all] : state().memory_of_graphs) {
      if (std::find(all.begin(), all.end(), data) != all.end()) return CUDA_SUCCESS;
    }
  }
  if (!runs_late(stream)) return drop_memory(data);
  size_t bytes = size_of(data);
  // Whoever uses it later finds nonsense; it goes when all is done.
  give(stream, [=] { tile_emulation::fill_with_nonsense(data, bytes); });
  std::lock_guard lock(state().mutex);
  state().freed.push_back(data);
  return CUDA_SUCCESS;
}
CUresult fake_cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  ENTER(cuMemcpyHtoDAsync);
  auto* there = reinterpret_cast<void*>(to);
  if (!runs_late(stream)) {
    std::memcpy(there, from, bytes);
  } else if (is_page_locked(from)) {
    give(stream, [=] { std::memcpy(there, from, bytes); });
  } else {
    const auto* first = static_cast<const char*>(from);
    give(stream, [there, kept = std::vector<char>(first, first + bytes)] {
      std::memcpy(there, kept.data(), kept.size());
    });
  }
  return CUDA_SUCCESS;
}
CUresult fake_cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ENTER(cuMemcpyDtoHAsync);
  const auto* there = reinterpret_cast<const void*>(from);
  if (runs_late(stream)) {
    give(stream, [=] { std::memcpy(to, there, bytes); });
  } else {
    std::memcpy(to, there, bytes);
  }
  return CUDA_SUCCESS;
}
CUresult fake_cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ENTER(cuMemcpyDtoDAsync);
  note("copy", stream);
  give(stream, [=] {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
  return CUDA_SUCCESS;
}
CUresult fake_cuMemcpy3DAsync(const CUDA_MEMCPY3D* given, CUstream stream) {
  ENTER(cuMemcpy3DAsync);
  note("copy", stream);
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
  note("clear", stream);
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

}  // namespace tile_fake
