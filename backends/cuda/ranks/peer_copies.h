// Parts that go between GPUs of one process by their copy engines, which leave the multiprocessors
// to kernels: who receives a part copies it out of the sender's memory.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "backends/cuda/driver/session.h"
#include "backends/rank_device.h"

namespace tile::cuda {

// What the ranks of one link that are in this process tell each other. Thread safe.
class PeerRoom {
 public:
  // That of the link with this name, which lasts as long as one of its ranks has it.
  static std::shared_ptr<PeerRoom> of(const LinkId& id);

  struct Part {
    const std::byte* data = nullptr;
    size_t bytes = 0;
    CUevent ready = nullptr;  // the sender's: the part may be copied behind it
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
  // The event behind the receiver's copy of the next part that it has taken; null: none yet.
  CUevent taken(size_t sender, size_t receiver);
  // Nobody takes a part of the sender any more; events behind copies that were taken.
  std::vector<CUevent> leave(size_t sender);

 private:
  using Pair = std::pair<size_t, size_t>;  // sender, receiver
  std::mutex mutex_;
  std::map<Pair, std::deque<Part>> offered_;
  std::map<Pair, std::deque<CUevent>> taken_;
};

// One rank's copies. Used by one thread at a time; the device's context is current.
class PeerCopies {
 public:
  // `peers`: ranks whose memory the device reaches, and that reach its memory.
  PeerCopies(std::shared_ptr<PeerRoom> room, Session& session, size_t rank, std::set<size_t> peers);
  ~PeerCopies();
  PeerCopies(const PeerCopies&) = delete;
  PeerCopies& operator=(const PeerCopies&) = delete;

  bool reaches(size_t rank) const { return peers_.contains(rank); }
  // `ready`: an event behind which the sent parts may be read. The stream comes behind it already.
  void start(std::span<const LinkPart> sent, std::span<const LinkPart> received, CUevent ready,
             CUstream stream);
  // Whether the stream was given all copies of what was started, and comes behind those of others.
  bool is_given();
  // Nothing more is copied. The stream comes behind what others copy still.
  void stop(CUstream stream) noexcept;

 private:
  CUevent copy(const PeerRoom::Part& from, const LinkPart& to);
  void come_behind(CUevent taken);

  std::shared_ptr<PeerRoom> room_;
  Session& session_;
  const Driver& driver_;
  size_t rank_;
  std::set<size_t> peers_;
  CUstream stream_ = nullptr;
  std::deque<LinkPart> awaited_;  // parts that are not taken yet
  std::deque<size_t> offered_;    // receivers of parts that they have not been seen to take
};

}  // namespace tile::cuda
