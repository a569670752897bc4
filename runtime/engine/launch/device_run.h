// Runs of an executable on a device with memory of its own.
#pragma once

#include <map>
#include <memory>

#include "runtime/engine/executable.h"

namespace tile {

// Launches use a tensor where it is if its first element is at a multiple of so many bytes, the
// most that a thread loads at once.
constexpr size_t kTensorAlignment = 16;

// Device memory, given back to the pool when the stream's work so far is done.
class DeviceMemory {
 public:
  DeviceMemory(DeviceSession& session, size_t bytes, void* stream)
      : session_(session), bytes_(bytes), stream_(stream) {
    data_ = static_cast<std::byte*>(session.allocate(bytes, stream));
  }
  ~DeviceMemory() { session_.release(data_, bytes_, stream_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  DeviceSession& session_;
  size_t bytes_;
  void* stream_;
  std::byte* data_ = nullptr;
};

// A tensor's bytes in the device's memory, from where it is; `copy` becomes a view of them with the
// same strides. Every stream may read them. Throws Failure (run).
std::shared_ptr<const DeviceMemory> device_copy(DeviceSession& session, const TensorView& from,
                                                TensorView& copy);

// The constants of an executable, uploaded once. Throws Failure (run).
class DeviceConstants {
 public:
  explicit DeviceConstants(const Executable& executable);
  void* at(size_t tensor) const { return memory_.at(tensor)->data(); }

 private:
  DeviceSession& session_;
  std::map<size_t, std::unique_ptr<DeviceMemory>> memory_;  // by the tensor's id
};

// What runs find ready: constants on the device, code that makes strided inputs dense, a place for
// recordings.
void prepare_device(Executable& executable);

// The run of device tensors that are used where they are: pointers to first elements, aligned to 16
// bytes, of inputs with the strides compiled for and dense outputs, in the executable's order.
void run_in_place(const Executable& executable, std::span<void* const> inputs,
                  std::span<void* const> outputs, const RunOptions& options);

// As run(); tensors are in host memory (copied in and out, waiting for the results) or on the
// device (used where they are, nothing waits).
void run_on_device(const Executable& executable, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs, const RunOptions& options);

}  // namespace tile
