// One rank's device among those of a mesh, and how it gives memory to the others': over a link
// between devices, or through the host's memory.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/rank_device.h"
#include "runtime/engine/executable.h"
#include "runtime/transport/transport.h"

namespace tile {

class Engine;

class DeviceEnd {
 public:
  // Of an engine with a device.
  explicit DeviceEnd(std::shared_ptr<Engine> engine);
  ~DeviceEnd();
  DeviceEnd(const DeviceEnd&) = delete;
  DeviceEnd& operator=(const DeviceEnd&) = delete;

  Engine& engine() const { return *engine_; }
  RankDevice& device() const { return *device_; }
  // Null: parts go through the host's memory.
  DeviceLink* link() const { return link_.get(); }
  void take_link(std::unique_ptr<DeviceLink> link, bool records) {
    link_ = std::move(link);
    records_ = records;
  }
  // Null where runs cannot be recorded, on this rank or on another one.
  LinkedPeers* peers() const { return records_ && !dead_ ? link_->peers() : nullptr; }
  // Whether kernels and the link use the tensor where it is.
  bool takes_in_place(const TensorView& view) const;
  // Page-locked memory of at least so many bytes, the same at every call but for its size. What it
  // held is gone where it grows.
  std::byte* staging(size_t bytes);
  // Recordings of all programs may keep a part of the device's memory: so much of that as long as
  // what is returned lives; null: there is not so much left. Thread safe.
  std::shared_ptr<const void> room_for_recording(size_t bytes);
  // The link ends, with what runs on it; whether it let go of all memory.
  bool abort() noexcept;
  bool is_dead() const { return dead_; }

 private:
  std::shared_ptr<Engine> engine_;
  std::unique_ptr<RankDevice> device_;
  std::unique_ptr<DeviceLink> link_;
  std::byte* staging_ = nullptr;
  size_t staged_ = 0;
  bool records_ = false;
  std::shared_ptr<std::atomic<int64_t>> room_for_recordings_;  // bytes that are left
  bool dead_ = false;
};

// Why devices with these offers, of all ranks, cannot be linked; empty: they can.
std::string why_staged(std::span<const LinkOffer> offers);
// How parts travel, for people. `why`: as why_staged() has it.
std::string transport_text(std::span<const LinkOffer> offers, const std::string& why);

// This rank's end; null where its engine has no device. All ranks together, those without a device
// too. How parts travel is said once, in the log of rank 0's engine. A link that cannot be made is
// none. Throws Failure (run, "rank") where another rank failed or is silent; the transport is then
// dead.
std::shared_ptr<DeviceEnd> connect_devices(const std::shared_ptr<Engine>& engine,
                                           Transport& transport);

}  // namespace tile
