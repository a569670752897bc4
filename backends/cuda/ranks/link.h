// Links of ranks' devices over NCCL.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "backends/cuda/driver/session.h"
#include "backends/cuda/ranks/nccl.h"
#include "backends/rank_device.h"

namespace tile::cuda {

class NcclLink final : public DeviceLink {
 public:
  // Begins to make a communicator of which this is one rank; is_given() says when it is made.
  // Throws Failure (run).
  NcclLink(std::shared_ptr<const Nccl> nccl, Session& session, const LinkId& id, size_t rank,
           size_t ranks);
  ~NcclLink() override;

  void start(std::span<const LinkPart> sent, std::span<const LinkPart> received) override;
  void start(const LinkCollective& what) override;
  bool is_given() override;
  Progress progress() override;
  bool abort(double seconds) noexcept override;

 private:
  // An exchange that the device has not been seen to have done. Once it is open its end is not yet
  // recorded.
  struct Running {
    CUevent begin = nullptr, end = nullptr;
    bool begun = false;
  };
  CUevent event();
  void record(CUevent event);
  bool is_reached(CUevent event);
  // Gives the stream what `calls` gives it, as an exchange: a group of calls of NCCL, whose first
  // bad result it returns.
  void give(const std::function<int(CUstream)>& calls);
  int give_parts(std::span<const LinkPart> sent, std::span<const LinkPart> received,
                 CUstream stream);
  bool is_quiet(double seconds) noexcept;

  std::shared_ptr<const Nccl> nccl_;
  Session& session_;
  std::shared_ptr<const Device> device_;
  const Driver& driver_;
  NcclComm comm_ = nullptr;  // null: ended
  bool given_ = false;       // all that was started, by NCCL to the stream
  bool open_ = false;        // the last exchange's end is to be recorded
  std::deque<Running> running_;
  std::vector<CUevent> free_;
  Progress progress_;
};

}  // namespace tile::cuda
