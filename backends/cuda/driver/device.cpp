#include "backends/cuda/driver/device.h"

#include <algorithm>
#include <array>

#include "backends/cuda/architecture.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {

Device::Device(std::shared_ptr<const Driver> driver, int ordinal)
    : driver_(std::move(driver)), ordinal_(ordinal) {
  int count = 0;
  driver_->check(driver_->cuDeviceGetCount_(&count), "counting GPUs");
  if (ordinal >= count) {
    fail(Stage::run, "device", {},
         count == 0 ? "the CUDA driver finds no GPU"
                    : "there is no GPU " + std::to_string(ordinal) + "; the driver finds " +
                          std::to_string(count),
         "check CUDA_VISIBLE_DEVICES, or use the cpu backend");
  }
  driver_->check(driver_->cuDeviceGet_(&device_, ordinal), "opening the GPU");
  std::array<char, 256> name{};
  driver_->check(driver_->cuDeviceGetName_(name.data(), static_cast<int>(name.size()), device_),
                 "asking for the GPU's name");
  name_ = name.data();
  probe();
  driver_->check(driver_->cuDevicePrimaryCtxRetain_(&context_, device_), "making a context");
}

Device::~Device() { driver_->cuDevicePrimaryCtxRelease_(device_); }

int Device::attribute(CUdevice_attribute which) const {
  int value = 0;
  driver_->check(driver_->cuDeviceGetAttribute_(&value, which, device_), "probing the GPU");
  return value;
}

void Device::probe() {
  int major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  int minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  if (major * 10 + minor < 75 || attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 0) {
    fail(Stage::run, "device", {},
         name_ + " (compute capability " + std::to_string(major) + "." + std::to_string(minor) +
             ") is not supported",
         "this backend needs compute capability 7.5 and stream-ordered memory pools");
  }
  target_ = target_of_architecture(architecture_name(major, minor));
  GpuLimits& gpu = target_.gpu;
  int old_count = gpu.multiprocessors;
  gpu.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  gpu.warp_size = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  gpu.threads_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  gpu.threads_per_multiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  gpu.registers_per_multiprocessor =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  gpu.shared_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  gpu.shared_per_multiprocessor =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  target_.threads = gpu.multiprocessors;
  target_.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  target_.l2_bytes_per_ns *= static_cast<double>(old_count) / gpu.multiprocessors;
  target_.l3_bytes_per_ns = target_.l2_bytes_per_ns;
  if (int most = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR); most > 0) {
    gpu.blocks_per_multiprocessor = most;
  }
  // What a multiprocessor does in a clock is its architecture's, the clock this part's. Clocks read
  // 0 on some parts.
  if (double khz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE); khz > 0) {
    double change = khz * 1e-6 / gpu.gigahertz;
    gpu.gigahertz = khz * 1e-6;
    gpu.matrix_gigahertz *= change;
    gpu.matrix_per_ns *= change;
    target_.fma_per_ns *= change;
  }
  // Two transfers a clock.
  double clock_khz = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  double bits = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  double bytes_per_ns = 2 * clock_khz * bits / 8 * 1e-6;
  if (bytes_per_ns > 0) target_.dram_bytes_per_ns = bytes_per_ns / gpu.multiprocessors;
}

Current::Current(const Device& device) : driver_(device.driver()) {
  CUcontext now = nullptr;
  driver_.check(driver_.cuCtxGetCurrent_(&now), "asking for the current context");
  if (now == device.context()) return;
  driver_.check(driver_.cuCtxPushCurrent_(device.context()), "entering the GPU's context");
  pushed_ = true;
}

Current::~Current() {
  CUcontext left = nullptr;
  if (pushed_) driver_.cuCtxPopCurrent_(&left);
}

}  // namespace tile::cuda
