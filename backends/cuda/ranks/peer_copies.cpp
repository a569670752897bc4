#include "backends/cuda/ranks/peer_copies.h"

#include <algorithm>
#include <utility>

#include "backends/cuda/ranks/recorded_link.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

PeerCopies::PeerCopies(std::shared_ptr<PeerRoom> room, Session& session, size_t rank, size_t ranks,
                       std::set<size_t> peers)
    : room_(std::move(room)),
      session_(session),
      driver_(session.device()->driver()),
      rank_(rank),
      peers_(std::move(peers)) {
  if (peers_.size() + 1 == ranks) {
    recordings_ = std::make_unique<PeerRecordings>(room_, session, rank, ranks);
  }
}

PeerCopies::~PeerCopies() {
  for (CUevent event : room_->leave(rank_)) driver_.cuEventDestroy_(event);
}

void PeerCopies::start(std::span<const LinkPart> sent, std::span<const LinkPart> received,
                       CUevent ready, CUstream stream) {
  internal_check(awaited_.empty() && offered_.empty(), "peer copies: parts that were not given");
  stream_ = stream;
  for (const LinkPart& part : received) {
    if (part.bytes != 0) awaited_.push_back(part);
  }
  for (const LinkPart& part : sent) {
    if (part.bytes == 0) continue;
    room_->offer(rank_, part.rank, {part.data, part.bytes, ready});
    offered_.push_back(part.rank);
  }
}

bool PeerCopies::is_given() {
  while (!awaited_.empty()) {
    const LinkPart& part = awaited_.front();
    auto take = [&](const PeerRoom::Part& from) { return copy(from, part); };
    if (!room_->take(part.rank, rank_, take)) return false;
    awaited_.pop_front();
  }
  while (!offered_.empty()) {
    CUevent taken = room_->taken(rank_, offered_.front());
    if (taken == nullptr) return false;
    offered_.pop_front();
    come_behind(taken);
  }
  return true;
}

// An event behind the copy, of whoever asked for it.
CUevent PeerCopies::copy(const PeerRoom::Part& from, const LinkPart& to) {
  internal_check(from.bytes == to.bytes, "peer copies: a part of another size");
  CUevent done = nullptr;
  session_.check(driver_.cuEventCreate_(&done, CU_EVENT_DISABLE_TIMING), "making an event");
  try {
    session_.check(driver_.cuStreamWaitEvent_(stream_, from.ready, CU_EVENT_WAIT_DEFAULT),
                   "ordering streams");
    session_.check(
        driver_.cuMemcpyDtoDAsync_(address(to.data), address(from.data), to.bytes, stream_),
        "copying from another GPU");
    session_.check(driver_.cuEventRecord_(done, stream_), "recording an event");
  } catch (...) {
    driver_.cuEventDestroy_(done);
    throw;
  }
  return done;
}

void PeerCopies::come_behind(CUevent taken) {
  CUresult result = driver_.cuStreamWaitEvent_(stream_, taken, CU_EVENT_WAIT_DEFAULT);
  driver_.cuEventDestroy_(taken);
  session_.check(result, "ordering streams");
}

void PeerCopies::stop(CUstream stream) noexcept {
  stream_ = stream;
  room_->close();
  awaited_.clear();
  offered_.clear();
  try {
    for (CUevent event : room_->leave(rank_)) {
      driver_.cuStreamWaitEvent_(stream_, event, CU_EVENT_WAIT_DEFAULT);
      driver_.cuEventDestroy_(event);
    }
  } catch (const std::exception&) {
    // No memory for the list: the copies are waited for no more.
  }
}

}  // namespace tile::cuda
