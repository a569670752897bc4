// Parts that go between GPUs of one process by their copy engines, which leave the multiprocessors
// to kernels: who receives a part copies it out of the sender's memory.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <span>

#include "backends/cuda/driver/session.h"
#include "backends/cuda/ranks/peer_room.h"
#include "backends/rank_device.h"

namespace tile::cuda {

// One rank's copies. Used by one thread at a time; the device's context is current.
class PeerCopies {
 public:
  // One of so many ranks. `peers`: those whose memory the device reaches, and that reach its
  // memory.
  PeerCopies(std::shared_ptr<PeerRoom> room, Session& session, size_t rank, size_t ranks,
             std::set<size_t> peers);
  ~PeerCopies();
  PeerCopies(const PeerCopies&) = delete;
  PeerCopies& operator=(const PeerCopies&) = delete;

  bool reaches(size_t rank) const { return peers_.contains(rank); }
  // Null where not all other ranks are peers.
  LinkedPeers* recordings() const { return recordings_.get(); }
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
  std::unique_ptr<LinkedPeers> recordings_;
  CUstream stream_ = nullptr;
  std::deque<LinkPart> awaited_;  // parts that are not taken yet
  std::deque<size_t> offered_;    // receivers of parts that they have not been seen to take
};

}  // namespace tile::cuda
