// The ranks of a mesh as threads of this process: which engine each has, and how they are
// connected.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/ranks/device/device_end.h"
#include "runtime/transport/transport.h"

namespace tile {

class LocalRanks {
 public:
  // Where the engine's backend is a GPU that nobody numbered ("cuda", or "auto" that found one),
  // rank r has an engine of the same options on GPU r, counted round where there are fewer; else
  // all share the engine. Throws Failure.
  LocalRanks(const std::shared_ptr<Engine>& engine, size_t ranks,
             double timeout_seconds = kRankTimeoutSeconds);

  size_t count() const { return engines_.size(); }
  const std::shared_ptr<Engine>& engine(size_t rank) const { return engines_[rank]; }
  // How ranks on GPUs will exchange parts, for people; empty where there are none.
  std::string transport() const;
  // Whether they will be linked.
  bool is_linked() const;
  // Calls `work` on a thread for each rank, which are connected before. Where several throw, what
  // is not the consequence of another rank's failure is thrown. Calls are made one at a time.
  using Work = std::function<void(size_t rank, Transport& transport,
                                  const std::shared_ptr<DeviceEnd>& device)>;
  void run(const Work& work);

 private:
  // Of all ranks; fewer where some have no device.
  std::vector<LinkOffer> offers() const;
  void run_threads(const Work& work);

  std::vector<std::shared_ptr<Engine>> engines_;
  double timeout_;
  std::mutex mutex_;
  // Between runs; connected anew after a failure.
  std::vector<std::shared_ptr<DeviceEnd>> devices_;
  bool connected_ = false;
};

}  // namespace tile
