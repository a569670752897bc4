#include "backends/cuda/ranks/link.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "backends/cuda/ranks/row_copies.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// Ending a communicator that is whole takes milliseconds.
constexpr double kCloseSeconds = 5;
constexpr std::chrono::microseconds kPause(200);  // between two looks at what ends

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// What a thread of its own does: it may take for ever.
struct Ending {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
};

void end_communicator(const std::shared_ptr<const Nccl>& nccl,
                      const std::shared_ptr<const Device>& device, NcclComm comm) noexcept {
  try {
    Current current(*device);
    nccl->ncclCommAbort_(comm);
  } catch (const Failure&) {
    // The context is gone, and with it what runs there.
  }
}

// Whether the communicator ended within the time.
bool ended(std::shared_ptr<const Nccl> nccl, std::shared_ptr<const Device> device, NcclComm comm,
           Clock::time_point by) {
  auto ending = std::make_shared<Ending>();
  auto work = [=]() mutable {
    end_communicator(nccl, device, comm);
    nccl.reset();  // nothing is held once it is known to be done
    device.reset();
    std::lock_guard lock(ending->mutex);
    ending->done = true;
    ending->changed.notify_all();
  };
  try {
    std::thread(work).detach();
  } catch (const std::system_error&) {  // no thread is to be had
    work();
  }
  std::unique_lock lock(ending->mutex);
  return ending->changed.wait_until(lock, by, [&] { return ending->done; });
}

// NCCL's number of a type that it adds.
int nccl_type(DType type) {
  switch (type) {
    case DType::i8:
      return 0;
    case DType::u8:
      return 1;
    case DType::i32:
      return 2;
    case DType::u32:
      return 3;
    case DType::i64:
      return 4;
    case DType::u64:
      return 5;
    case DType::f16:
      return 6;
    case DType::f32:
      return 7;
    case DType::f64:
      return 8;
    case DType::bf16:
      return 9;
    default:
      return -1;  // refused by NCCL
  }
}

}  // namespace

NcclLink::NcclLink(std::shared_ptr<const Nccl> nccl, Session& session, const LinkId& id,
                   size_t rank, size_t ranks, const std::set<size_t>& peers)
    : nccl_(std::move(nccl)),
      session_(session),
      device_(session.device()),
      driver_(device_->driver()),
      peers_(PeerRoom::of(id), session, rank, ranks, peers) {
  Current current(*device_);
  NcclId name;
  std::memcpy(name.bytes, id.data(), sizeof name.bytes);
  NcclConfig config;
  int result = nccl_->ncclCommInitRankConfig_(&comm_, static_cast<int>(ranks), name,
                                              static_cast<int>(rank), &config);
  nccl_->check(result, nullptr, "making a communicator");
}

NcclLink::~NcclLink() {
  abort(kCloseSeconds);
  try {
    Current current(*device_);
    for (const Running& r : running_) free_.insert(free_.end(), {r.begin, r.packed, r.end});
    free_.insert(free_.end(), marks_.begin(), marks_.end());
    for (CUevent event : free_) {
      if (event != nullptr) driver_.cuEventDestroy_(event);
    }
    if (beside_ != nullptr) driver_.cuStreamDestroy_(beside_);
  } catch (const Failure&) {
    // The context is gone.
  }
}

CUevent NcclLink::event() {
  CUevent made = nullptr;
  if (!free_.empty()) {
    made = free_.back();
    free_.pop_back();
  } else {
    session_.check(driver_.cuEventCreate_(&made, CU_EVENT_DISABLE_TIMING), "making an event");
  }
  return made;
}

void NcclLink::record(CUevent event, CUstream stream) {
  session_.check(driver_.cuEventRecord_(event, stream), "recording an event");
}

// What is sent goes on its way before blocks of kernels that were not started yet. The legacy
// default stream need not wait for it: the session's own does.
CUstream NcclLink::beside() {
  if (beside_ != nullptr) return beside_;
  int least = 0, most = 0;
  session_.check(driver_.cuCtxGetStreamPriorityRange_(&least, &most), "asking for priorities");
  session_.check(driver_.cuStreamCreateWithPriority_(&beside_, CU_STREAM_NON_BLOCKING, most),
                 "making a stream");
  return beside_;
}

bool NcclLink::is_reached(CUevent event) {
  CUresult result = driver_.cuEventQuery_(event);
  if (result == CUDA_ERROR_NOT_READY) return false;
  session_.check(result, "looking at an event");
  return true;
}

void NcclLink::mark() {
  Current current(*device_);
  CUevent now = event();
  marks_.push_back(now);
  record(now, own());
}

size_t NcclLink::start(const LinkExchange& what, LinkManner how) {
  std::vector<LinkPart> copied_out, copied_in, out, in;
  auto is_copied = [&](const LinkPart& part) { return how.copies && peers_.reaches(part.rank); };
  for (const LinkPart& part : what.sent) (is_copied(part) ? copied_out : out).push_back(part);
  for (const LinkPart& part : what.received) (is_copied(part) ? copied_in : in).push_back(part);
  size_t number = 0;
  if (out.empty() && in.empty()) {
    Current current(*device_);
    begin(how.lane, what.packs);
    number = begun(how.lane);
  } else {
    auto parts = [&](CUstream stream) { return give_parts(out, in, stream); };
    number = give(how.lane, what.packs, parts);
  }
  Running& now = running_.back();
  now.unpacks.assign(what.unpacks.begin(), what.unpacks.end());
  CUevent ready = now.begin;
  if (!copied_out.empty() && !what.packs.empty()) {
    Current current(*device_);
    ready = now.packed = event();
    record(ready, now.stream);
  }
  peers_.start(copied_out, copied_in, ready, now.stream);
  return number;
}

size_t NcclLink::start(const LinkCollective& what, LinkLane lane) {
  return give(lane, what.packs, [&](CUstream stream) {
    int type = nccl_type(what.type);
    switch (what.kind) {
      case LinkCollective::Kind::all_gather:
        return nccl_->ncclAllGather_(what.from, what.to, what.elements * byte_size(what.type),
                                     kNcclBytes, comm_, stream);
      case LinkCollective::Kind::reduce_scatter:
        return nccl_->ncclReduceScatter_(what.from, what.to, what.elements, type, kNcclSum, comm_,
                                         stream);
      default:
        return nccl_->ncclAllReduce_(what.from, what.to, what.elements, type, kNcclSum, comm_,
                                     stream);
    }
  });
}

NcclLink::Running& NcclLink::begin(LinkLane lane, std::span<const RowCopy> packs) {
  internal_check(comm_ != nullptr && given_, "a link that is not ready");
  if (lane == LinkLane::in_line && started_ > 0) await(started_ - 1);
  CUstream stream = lane == LinkLane::in_line ? own() : beside();
  Running& now = running_.emplace_back();
  now.stream = stream;
  if (lane == LinkLane::beside && !marks_.empty()) {
    now.begin = marks_.front();
    marks_.pop_front();
  } else {
    now.begin = event();
    record(now.begin, own());
  }
  if (stream != own()) {
    session_.check(driver_.cuStreamWaitEvent_(stream, now.begin, CU_EVENT_WAIT_DEFAULT),
                   "ordering streams");
  }
  now.end = event();
  for (const RowCopy& rows : packs) copy_rows(session_, rows, stream);
  return now;
}

size_t NcclLink::begun(LinkLane lane) {
  given_ = false;
  open_ = true;
  if (lane == LinkLane::in_line) behind_ = started_ + 1;
  return started_++;
}

size_t NcclLink::give(LinkLane lane, std::span<const RowCopy> packs,
                      const std::function<int(CUstream)>& calls) {
  Current current(*device_);
  CUstream stream = begin(lane, packs).stream;
  nccl_->check(nccl_->ncclGroupStart_(), comm_, "beginning an exchange");
  int parts = calls(stream);
  int end = nccl_->ncclGroupEnd_();  // in any case: the group is the thread's
  size_t number = begun(lane);
  nccl_->check(parts, comm_, "exchanging parts");
  nccl_->check(end, comm_, "exchanging parts");
  return number;
}

void NcclLink::await(size_t exchange) {
  internal_check(given_ && exchange < started_, "an exchange that was not given is awaited");
  // Those that were seen to be done have no event any more.
  if (exchange < behind_ || exchange < progress_.done) return;
  Current current(*device_);
  const Running& running = running_[exchange - progress_.done];
  session_.check(driver_.cuStreamWaitEvent_(own(), running.end, CU_EVENT_WAIT_DEFAULT),
                 "ordering streams");
  behind_ = exchange + 1;
}

int NcclLink::give_parts(std::span<const LinkPart> sent, std::span<const LinkPart> received,
                         CUstream stream) {
  auto is_bad = [](int result) { return result != kNcclSuccess && result != kNcclInProgress; };
  for (const LinkPart& part : sent) {
    if (part.bytes == 0) continue;
    int result = nccl_->ncclSend_(part.data, part.bytes, kNcclBytes, static_cast<int>(part.rank),
                                  comm_, stream);
    if (is_bad(result)) return result;
  }
  for (const LinkPart& part : received) {
    if (part.bytes == 0) continue;
    int result = nccl_->ncclRecv_(part.data, part.bytes, kNcclBytes, static_cast<int>(part.rank),
                                  comm_, stream);
    if (is_bad(result)) return result;
  }
  return kNcclSuccess;
}

bool NcclLink::is_given() {
  if (given_) return true;
  internal_check(comm_ != nullptr, "a link that was ended");
  Current current(*device_);
  int state = kNcclSuccess;
  nccl_->check(nccl_->ncclCommGetAsyncError_(comm_, &state), comm_, "asking NCCL");
  if (state == kNcclInProgress) return false;
  nccl_->check(state, comm_, "an exchange between GPUs");
  if (!peers_.is_given()) return false;
  given_ = true;
  if (open_) end_of_given();
  return true;
}

void NcclLink::end_of_given() {
  Running& last = running_.back();
  for (const RowCopy& rows : std::exchange(last.unpacks, {})) {
    copy_rows(session_, rows, last.stream);
  }
  record(last.end, last.stream);
  open_ = false;
}

DeviceLink::Progress NcclLink::progress() {
  Current current(*device_);
  if (comm_ != nullptr) {
    int state = kNcclSuccess;
    nccl_->check(nccl_->ncclCommGetAsyncError_(comm_, &state), comm_, "asking NCCL");
    nccl_->check(state, comm_, "an exchange between GPUs");
  }
  while (!running_.empty()) {
    Running& first = running_.front();
    if (!first.begun && !is_reached(first.begin)) break;
    if (!std::exchange(first.begun, true)) ++progress_.begun;
    bool recorded = !open_ || running_.size() > 1;
    if (!recorded || !is_reached(first.end)) break;
    ++progress_.done;
    free_.insert(free_.end(), {first.begin, first.end});
    if (first.packed != nullptr) free_.push_back(first.packed);
    running_.pop_front();
  }
  return progress_;
}

bool NcclLink::abort(double seconds) noexcept {
  if (comm_ == nullptr) return true;
  Clock::time_point by = after(seconds);
  try {
    stop_copies();
    bool over = ended(nccl_, device_, std::exchange(comm_, nullptr), by);
    double left = std::chrono::duration<double>(by - Clock::now()).count();
    return over && is_quiet(std::max(0.0, left));
  } catch (const std::exception&) {  // no memory for it, or the device fails
    return false;
  }
}

void NcclLink::stop_copies() {
  Current current(*device_);
  peers_.stop(beside_ != nullptr ? beside_ : own());
}

// Whether the streams come to their ends within the time.
bool NcclLink::is_quiet(double seconds) noexcept {
  if (running_.empty()) return true;
  try {
    Current current(*device_);
    return (beside_ == nullptr || is_quiet(beside_, seconds)) && is_quiet(own(), seconds);
  } catch (const std::exception&) {
    return false;
  }
}

bool NcclLink::is_quiet(CUstream stream, double seconds) {
  CUevent last = event();
  free_.push_back(last);  // whatever comes of it
  record(last, stream);
  for (Clock::time_point by = after(seconds); !is_reached(last);) {
    if (Clock::now() > by) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

}  // namespace tile::cuda
