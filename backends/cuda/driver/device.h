// One GPU: its primary context, and its description as a Target.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/driver/driver.h"
#include "core/target/target.h"

namespace tile::cuda {

class Device {
 public:
  // Throws Failure (run, "device") where the driver knows no such device or it is too old.
  Device(std::shared_ptr<const Driver> driver, int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return *driver_; }
  int ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }
  const Target& target() const { return target_; }
  CUcontext context() const { return context_; }
  int attribute(CUdevice_attribute which) const;

 private:
  void probe();
  std::shared_ptr<const Driver> driver_;
  int ordinal_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::string name_;
  Target target_;
};

// The device's context is current while this lives; the caller's is current again afterwards.
class Current {
 public:
  explicit Current(const Device& device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

}  // namespace tile::cuda
