// Links of ranks' devices over NCCL.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "backends/cuda/driver/session.h"
#include "backends/cuda/ranks/nccl.h"
#include "backends/cuda/ranks/peer_copies.h"
#include "backends/rank_device.h"

namespace tile::cuda {

class NcclLink final : public DeviceLink {
 public:
  // Begins to make a communicator of which this is one rank; is_given() says when it is made.
  // Throws Failure (run).
  // `peers`: ranks of this process whose GPUs reach each other; parts beside kernels are copied
  // between them, all others go over NCCL.
  NcclLink(std::shared_ptr<const Nccl> nccl, Session& session, const LinkId& id, size_t rank,
           size_t ranks, const std::set<size_t>& peers);
  ~NcclLink() override;

  void mark() override;
  size_t start(const LinkExchange& what, LinkManner how) override;
  size_t start(const LinkCollective& what, LinkLane lane) override;
  bool is_given() override;
  void await(size_t exchange) override;
  Progress progress() override;
  bool abort(double seconds) noexcept override;
  LinkedPeers* peers() override { return peers_.recordings(); }

 private:
  // An exchange that the device has not been seen to have done. Once it is open its end is not yet
  // recorded.
  struct Running {
    CUevent begin = nullptr, end = nullptr;
    CUevent packed = nullptr;  // behind the copies that make what peers copy; null: none
    CUstream stream = nullptr;
    std::vector<RowCopy> unpacks;  // that the stream is to be given
    bool begun = false;
  };
  CUevent event();
  void record(CUevent event, CUstream stream);
  bool is_reached(CUevent event);
  CUstream own() const { return session_.stream_of(nullptr); }
  CUstream beside();
  // The lane's stream comes behind what the session's own was given, or had been when it was
  // marked, and has the copies.
  Running& begin(LinkLane lane, std::span<const RowCopy> packs);
  size_t begun(LinkLane lane);
  // Gives the lane's stream what `calls` gives it, as an exchange: a group of calls of NCCL, whose
  // first bad result it returns.
  size_t give(LinkLane lane, std::span<const RowCopy> packs,
              const std::function<int(CUstream)>& calls);
  void end_of_given();
  int give_parts(std::span<const LinkPart> sent, std::span<const LinkPart> received,
                 CUstream stream);
  void stop_copies();
  bool is_quiet(double seconds) noexcept;
  bool is_quiet(CUstream stream, double seconds);

  std::shared_ptr<const Nccl> nccl_;
  Session& session_;
  std::shared_ptr<const Device> device_;
  const Driver& driver_;
  PeerCopies peers_;
  NcclComm comm_ = nullptr;    // null: ended
  CUstream beside_ = nullptr;  // null: not needed yet
  size_t started_ = 0;         // exchanges
  size_t behind_ = 0;          // so many of them are before what the own stream is given
  bool given_ = false;         // all that was started, by NCCL to the stream
  bool open_ = false;          // the last exchange's end is to be recorded
  std::deque<CUevent> marks_;
  std::deque<Running> running_;
  std::vector<CUevent> free_;
  Progress progress_;
};

}  // namespace tile::cuda
