#include "backends/cuda/driver/session.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "backends/cuda/driver/graph.h"
#include "backends/host_calls.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

constexpr size_t kAlignment = 256;  // what allocate() promises

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

// Errors that the device finds while it runs a kernel: any later call may be the one to tell.
bool is_of_a_kernel(CUresult result) {
  return result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_LAUNCH_TIMEOUT ||
         result == CUDA_ERROR_ASSERT ||
         (result >= CUDA_ERROR_HARDWARE_STACK_ERROR && result <= CUDA_ERROR_LAUNCH_FAILED);
}

}  // namespace

Session::Session(std::shared_ptr<const Device> device, size_t memory_limit,
                 const Allocator& allocator)
    : device_(std::move(device)),
      driver_(device_->driver()),
      allocator_(allocator),
      limit_(memory_limit) {
  const char* sync = std::getenv("TILE_CUDA_SYNC");
  wait_for_each_ = sync != nullptr && std::string(sync) == "1";
  Current current(*device_);
  if (!allocator_.is_given()) make_pool();
  // A blocking stream: the legacy default stream, where other libraries work, waits for it and it
  // for that one, so that tensors go back and forth without a word from the caller.
  CUresult made = driver_.cuStreamCreate_(&own_, CU_STREAM_DEFAULT);
  if (made != CUDA_SUCCESS) {
    destroy_pool();
    driver_.failed(made, "making a stream");
  }
}

void Session::make_pool() {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device_->ordinal()}};
  driver_.check(driver_.cuMemPoolCreate_(&pool_, &properties), "making a memory pool");
  // Freed memory stays in the pool between runs.
  cuuint64_t keep = UINT64_MAX;
  driver_.cuMemPoolSetAttribute_(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
}

void Session::destroy_pool() noexcept {
  if (pool_ != nullptr) driver_.cuMemPoolDestroy_(pool_);
}

Session::~Session() {
  try {
    Current current(*device_);
    driver_.cuStreamSynchronize_(own_);
    driver_.cuStreamDestroy_(own_);
    destroy_pool();
  } catch (const Failure&) {
    // The context is gone, and with it what was in it.
  }
}

CUstream Session::stream_of(void* stream) const {
  return stream == nullptr ? own_ : static_cast<CUstream>(stream);
}

void* Session::allocate(size_t bytes, void* stream) {
  if (bytes == 0) return nullptr;
  size_t used = in_use_.fetch_add(bytes) + bytes;
  try {
    if (limit_ != 0 && used > limit_) {
      fail(Stage::run, "memory", {},
           std::to_string(used) + " bytes of device memory are needed; the limit is " +
               std::to_string(limit_),
           "an engine whose option memory_limit is larger allows more");
    }
    Current current(*device_);
    return allocator_.is_given() ? from_host(bytes, stream_of(stream))
                                 : from_pool(bytes, stream_of(stream));
  } catch (...) {
    in_use_ -= bytes;
    throw;
  }
}

void* Session::from_pool(size_t bytes, CUstream stream) {
  CUdeviceptr memory = 0;
  CUresult result = driver_.cuMemAllocFromPoolAsync_(&memory, bytes, pool_, stream);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    // What earlier runs on other streams gave back may still be on its way.
    driver_.cuStreamSynchronize_(own_);
    driver_.cuMemPoolTrimTo_(pool_, 0);
    result = driver_.cuMemAllocFromPoolAsync_(&memory, bytes, pool_, stream);
  }
  check(result, "allocating " + std::to_string(bytes) + " bytes");
  return reinterpret_cast<void*>(memory);
}

void* Session::from_host(size_t bytes, CUstream stream) const {
  return take_memory(allocator_, bytes, kAlignment, stream, "device memory");
}

void Session::release(void* memory, size_t bytes, void* stream) noexcept {
  if (memory == nullptr) return;
  in_use_ -= bytes;
  try {
    Current current(*device_);
    if (allocator_.is_given()) {
      give_back_memory(allocator_, memory, bytes, stream_of(stream));
    } else {
      driver_.cuMemFreeAsync_(address(memory), stream_of(stream));
    }
  } catch (const Failure&) {
    // As in the destructor.
  }
}

void Session::copy_in(void* device, const void* host, size_t bytes, void* stream) {
  if (bytes == 0) return;
  Current current(*device_);
  check(driver_.cuMemcpyHtoDAsync_(address(device), host, bytes, stream_of(stream)),
        "copying to the device");
}

void Session::copy_out(void* host, const void* device, size_t bytes, void* stream) {
  if (bytes == 0) return;
  Current current(*device_);
  check(driver_.cuMemcpyDtoHAsync_(host, address(device), bytes, stream_of(stream)),
        "copying from the device");
  synchronize(stream);
}

void Session::copy(void* to, const void* from, size_t bytes, void* stream) {
  if (bytes == 0) return;
  Current current(*device_);
  check(driver_.cuMemcpyDtoDAsync_(address(to), address(from), bytes, stream_of(stream)),
        "copying on the device");
}

void Session::synchronize(void* stream) {
  Current current(*device_);
  check(driver_.cuStreamSynchronize_(stream_of(stream)), "waiting for the device");
  forget(stream_of(stream));
}

void Session::finish() {
  Current current(*device_);
  check(driver_.cuCtxSynchronize_(), "waiting for the device");
  std::lock_guard lock(mutex_);
  pending_.fill({});
}

std::unique_ptr<Recording> Session::record(const std::function<void(void*)>& work) {
  if (wait_for_each_) return nullptr;  // whoever asked for it wants to know each kernel
  return record_graph(device_, *this, GraphPriority::of_run, work);
}
std::unique_ptr<Recording> Session::record_streams(const std::function<void(void*)>& work) {
  if (wait_for_each_) return nullptr;
  return record_graph(device_, *this, GraphPriority::of_recording, work);
}

bool Session::is_recorded(void* stream) {
  if (stream == nullptr) return false;  // the session's own
  Current current(*device_);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult asked = driver_.cuStreamIsCapturing_(stream_of(stream), &status);
  // The legacy default stream while another stream is recorded: it does nothing now.
  if (asked == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
  check(asked, "asking for the state of a stream");
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

double Session::elapsed_ns(void* stream, const std::function<void()>& work) {
  Current current(*device_);
  struct Event {
    const Driver& driver;
    CUevent handle = nullptr;
    ~Event() {
      if (handle != nullptr) driver.cuEventDestroy_(handle);
    }
  };
  Event begin{driver_}, end{driver_};
  check(driver_.cuEventCreate_(&begin.handle, CU_EVENT_DEFAULT), "making an event");
  check(driver_.cuEventCreate_(&end.handle, CU_EVENT_DEFAULT), "making an event");
  check(driver_.cuEventRecord_(begin.handle, stream_of(stream)), "recording an event");
  work();
  check(driver_.cuEventRecord_(end.handle, stream_of(stream)), "recording an event");
  check(driver_.cuEventSynchronize_(end.handle), "waiting for an event");
  float milliseconds = 0;
  check(driver_.cuEventElapsedTime_(&milliseconds, begin.handle, end.handle), "reading events");
  return static_cast<double>(milliseconds) * 1e6;
}

void Session::launched(const KernelNames& kernels, CUstream stream) {
  {
    std::lock_guard lock(mutex_);
    const Pending& last = pending_[(next_ + kRemembered - 1) % kRemembered];
    bool again = last.stream == stream && last.kernels == kernels;
    if (!again) pending_[next_++ % kRemembered] = {stream, kernels};
  }
  if (wait_for_each_) synchronize(stream);
}

void Session::forget(CUstream stream) {
  std::lock_guard lock(mutex_);
  for (Pending& p : pending_) {
    if (p.stream == stream) p = {};
  }
}

KernelNames Session::recorded(CUstream stream) {
  std::vector<std::string> names;
  {
    std::lock_guard lock(mutex_);
    for (const Pending& p : pending_) {
      if (p.stream == stream) names.insert(names.end(), p.kernels->begin(), p.kernels->end());
    }
  }
  forget(stream);
  return std::make_shared<const std::vector<std::string>>(std::move(names));
}

std::string Session::suspects() {
  std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const Pending& p : pending_) {
    if (p.kernels) names.insert(names.end(), p.kernels->begin(), p.kernels->end());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.size() == 1) return "kernel " + names[0];
  std::string out = "one of the kernels";
  for (size_t i = 0; i < names.size(); ++i) out += (i == 0 ? " " : ", ") + names[i];
  return names.empty() ? "an earlier kernel, perhaps of another library," : out;
}

void Session::check(CUresult result, const std::string& what) {
  if (result == CUDA_SUCCESS) return;
  if (!is_of_a_kernel(result)) driver_.failed(result, what);
  fail(Stage::run, "launch", {}, suspects() + " failed on the device: " + driver_.text(result),
       "the device's context cannot be used any more: start the process again; TILE_CUDA_SYNC=1 "
       "waits after each launch and so names the kernel");
}

}  // namespace tile::cuda
