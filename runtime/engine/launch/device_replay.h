// Recordings of an executable's launches, for calls that come again with the same tensors: a device
// takes several kernels sooner as one recording than one by one.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/engine/launch/device_run.h"

namespace tile {

// Thread safe.
class DeviceReplays {
 public:
  // `temporary_bytes`: what a run needs beside its tensors. Each recording keeps its own.
  DeviceReplays(DeviceSession& session, size_t temporary_bytes)
      : session_(session), temporary_bytes_(temporary_bytes) {}
  ~DeviceReplays();
  DeviceReplays(const DeviceReplays&) = delete;
  DeviceReplays& operator=(const DeviceReplays&) = delete;

  // Gives a stream the launches, with temporaries at `temporaries`.
  using Launches = std::function<void(std::byte* temporaries, void* stream)>;
  // Runs the recording for these pointers, made when they come for the second time. False where
  // there is none: nothing has been done then.
  bool run(std::span<void* const> inputs, std::span<void* const> outputs, void* stream,
           const Launches& launches);

 private:
  struct Entry {
    std::vector<void*> pointers;
    uint64_t used = 0;  // number of the run that used it last
    std::unique_ptr<DeviceMemory> temporaries;
    std::shared_ptr<Recording> recording;
  };
  Entry* find(std::span<void* const> inputs, std::span<void* const> outputs);
  void remember(std::span<void* const> inputs, std::span<void* const> outputs);
  bool make(Entry& entry, const Launches& launches);

  DeviceSession& session_;
  size_t temporary_bytes_;
  std::mutex mutex_;
  uint64_t runs_ = 0;
  bool refused_ = false;  // the device does not record these launches
  static constexpr size_t kEntries = 4;
  std::array<Entry, kEntries> entries_;
};

}  // namespace tile
