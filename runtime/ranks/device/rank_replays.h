// Recordings of a rank's runs on a device, for runs that come again with the same tensors: kernels
// and exchanges reach the device as one piece of work, without a word among the ranks' hosts.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/ranks/device/device_store.h"

namespace tile {

// Of one rank's program. Thread safe. Runs are recorded where all ranks are threads of this
// process, on devices that reach each other's memory, and where all of them have tensors in their
// devices' memory that they had before; recordings keep the memory of a run each.
class RankReplays {
 public:
  // Both must outlive this.
  RankReplays(const RankExecutable& of, const DevicePlan& plan);
  ~RankReplays();
  RankReplays(const RankReplays&) = delete;
  RankReplays& operator=(const RankReplays&) = delete;

  // What a run does with its elements.
  using Work = std::function<void(RankStore& store)>;
  // All ranks together. False: nothing was done, and each rank runs by itself. `given` is called
  // once the device was given everything. Throws Failure; the device's link is then ended, and the
  // transport dead.
  bool run(Transport& transport, const std::shared_ptr<DeviceEnd>& end,
           std::span<const TensorView> inputs, std::span<const TensorView> outputs,
           const Work& work, const std::function<void()>& given);

 private:
  // What a device needs to run again; it outlives its runs.
  struct Replay {
    std::shared_ptr<const void> room;  // among other recordings
    std::unique_ptr<DeviceMemory> memory, landing;
    std::unique_ptr<RecordingLink> link;
    std::unique_ptr<Recording> recording;
    std::vector<DeviceExchanges::Named> exchanges;
  };
  struct Entry {
    std::vector<void*> pointers;
    uint64_t number = 0;  // of the recording, the same on all ranks; 0: none
    uint64_t used = 0;    // number of the run that used it last
    std::shared_ptr<Replay> replay;
  };
  // One run's call.
  struct Call {
    Transport& transport;
    const std::shared_ptr<DeviceEnd>& end;
    LinkedPeers& peers;
    const Work& work;
  };
  Entry* find(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
              const DeviceEnd& end);
  Entry& room(std::vector<void*> pointers);
  DeviceExchanges::Named first() const;
  std::vector<uint64_t> agree(const Call& call, uint64_t own);
  bool record(const Call& call, Entry& entry);
  bool make(const Call& call, Replay& replay, bool pushes);
  void fill(const Call& call, Replay& replay, bool pushes);
  void replay(const Call& call, Entry& entry, const std::function<void()>& given);

  const RankExecutable& of_;
  const DevicePlan& plan_;
  const LandingPlan landing_;
  bool refused_ = false;  // a rank could not record
  std::mutex mutex_;
  std::weak_ptr<DeviceEnd> end_;  // whose recordings these are
  uint64_t runs_ = 0;
  uint64_t recordings_ = 0;  // that all ranks have made or tried
  static constexpr size_t kEntries = 4;
  std::array<Entry, kEntries> entries_;
};

}  // namespace tile
