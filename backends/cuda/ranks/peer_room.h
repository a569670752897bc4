// What the ranks of one link that are in one process tell each other: parts that may be copied, and
// whether all of them run what they have recorded.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backends/cuda/ranks/signals.h"
#include "backends/rank_device.h"

namespace tile::cuda {

// Thread safe.
class PeerRoom {
 public:
  // That of the link with this name, which lasts as long as one of its ranks has it.
  static std::shared_ptr<PeerRoom> of(const LinkId& id);

  struct Part {
    const std::byte* data = nullptr;
    size_t bytes = 0;
    CUevent ready = nullptr;  // the sender's: the part may be copied behind it
    // Of a part of a recording instead: the word is 1 while the parts of a group may be copied, and
    // the receiver's stream makes it 0 behind the last one.
    std::shared_ptr<const Signals> signals = nullptr;
    size_t signal = 0;
    bool more = false;  // it is not the last one
  };
  void offer(size_t sender, size_t receiver, const Part& part);
  // Calls `take` with the sender's next part for the receiver, if it is there; what that returns,
  // an event behind the copy, is the sender's from then on.
  template <class Take>
  bool take(size_t sender, size_t receiver, const Take& take) {
    std::lock_guard lock(mutex_);
    std::deque<Part>& parts = offered_[{sender, receiver}];
    if (parts.empty()) return false;
    taken_[{sender, receiver}].push_back(take(parts.front()));
    parts.pop_front();
    return true;
  }
  // The sender's next part of a recording for the receiver, if it is there.
  std::optional<Part> take_recorded(size_t sender, size_t receiver);
  // The event behind the receiver's copy of the next part that it has taken; null: none yet.
  CUevent taken(size_t sender, size_t receiver);
  // Nobody takes a part of the sender any more; events behind copies that were taken.
  std::vector<CUevent> leave(size_t sender);

  // What a rank says before its run of this number; every rank says something before each run.
  void say(size_t rank, uint64_t run, uint64_t what);
  // What all ranks said of the run, once so many have.
  std::optional<std::vector<uint64_t>> said(uint64_t run, size_t ranks) const;

  // Where a rank's recording of its run of this number wants parts that others push, for each
  // sender in order, and the words that count what has come: that of a sender has its number behind
  // `first_word`.
  struct Landings {
    std::map<size_t, std::vector<std::pair<std::byte*, size_t>>> parts;  // with their bytes
    std::shared_ptr<const Signals> signals;
    size_t first_word = 0;
  };
  void land(size_t receiver, uint64_t run, Landings landings);
  // Of all ranks, once so many have said it.
  std::optional<std::map<size_t, Landings>> landings(uint64_t run, size_t ranks) const;

  // What the rank offered for the recording of these words and nobody has taken is offered no more.
  void withdraw(size_t rank, const Signals* of);
  // A rank cannot record its run of this number.
  void refuse(uint64_t run);
  bool is_refused(uint64_t run) const;

  // A rank's device is to be given a recording, that of a run of this number, and is done with it.
  // False: a rank has failed. Others' devices may write to its memory; once the room is closed and
  // quiet none does.
  bool begin_replay(size_t rank, uint64_t recording);
  void end_replay(size_t rank);
  bool is_quiet(uint64_t recording) const;  // no rank's device runs it
  void close();                             // a rank fails

 private:
  using Pair = std::pair<size_t, size_t>;  // sender, receiver
  mutable std::mutex mutex_;
  std::map<Pair, std::deque<Part>> offered_;
  std::map<Pair, std::deque<CUevent>> taken_;
  // By ranks, of runs of even and of odd numbers: nobody begins one before all have begun the last.
  std::array<std::map<size_t, std::pair<uint64_t, uint64_t>>, 2> said_;
  std::map<size_t, std::pair<uint64_t, Landings>> landings_;  // with the run's number
  uint64_t refused_ = 0;  // the last run that a rank could not record
  bool closed_ = false;
  std::map<size_t, uint64_t> replaying_;  // by ranks
};

}  // namespace tile::cuda
