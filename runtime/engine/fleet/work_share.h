// Units of work that several processes, on any machines that see one directory, do once between
// them. No process knows of the others; any of them may be killed at any point.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "runtime/engine/cache/private_directory.h"

namespace tile {

// A unit is claimed by the file UNIT.claim.N, which one process can make (PrivateDirectory::create)
// and then keeps fresh, and is done once UNIT.done is there. A claim is stale when nobody has
// touched it for the lease, by the file system's clock, or when its process is known to be dead:
// of this boot of this machine, and gone. A stale claim N is taken over by making N + 1, which
// again one process can do. Thread safe.
class WorkShare {
 public:
  static constexpr double kLeaseSeconds = 60;
  // `name` of the worker: letters, digits and dashes. The directory outlives nobody: it is shared.
  WorkShare(std::shared_ptr<const PrivateDirectory> directory, std::string name,
            double lease_seconds = kLeaseSeconds);
  ~WorkShare();
  WorkShare(const WorkShare&) = delete;
  WorkShare& operator=(const WorkShare&) = delete;

  const PrivateDirectory& directory() const { return *directory_; }
  const std::string& name() const { return name_; }

  // What the directory holds now. Names of units hold no dots.
  struct State {
    std::set<std::string> done;
    std::map<std::string, int> claimed;  // the number of each unit's last claim
  };
  State state() const;

  // Whether this worker has the unit now. `state`: as it was a moment ago.
  bool claim(const std::string& unit, const State& state);
  // A unit that this worker has: done, or given back. False: the directory cannot be written.
  bool finish(const std::string& unit);
  void give_back(const std::string& unit);

 private:
  bool is_stale(const std::string& claim) const;
  void keep_fresh();
  std::shared_ptr<const PrivateDirectory> directory_;
  std::string name_;
  double lease_;
  mutable std::mutex mutex_;
  std::condition_variable ending_;
  bool ends_ = false;
  std::map<std::string, std::string> held_;  // files of claims, by unit
  std::thread heart_;
};

// A name for a worker of this process that no other has, but for chance.
std::string worker_name();

}  // namespace tile
