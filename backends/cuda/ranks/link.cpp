#include "backends/cuda/ranks/link.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

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
                   size_t rank, size_t ranks)
    : nccl_(std::move(nccl)),
      session_(session),
      device_(session.device()),
      driver_(device_->driver()) {
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
    for (const Running& r : running_) free_.insert(free_.end(), {r.begin, r.end});
    for (CUevent event : free_) {
      if (event != nullptr) driver_.cuEventDestroy_(event);
    }
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

void NcclLink::record(CUevent event) {
  session_.check(driver_.cuEventRecord_(event, session_.stream_of(nullptr)), "recording an event");
}

bool NcclLink::is_reached(CUevent event) {
  CUresult result = driver_.cuEventQuery_(event);
  if (result == CUDA_ERROR_NOT_READY) return false;
  session_.check(result, "looking at an event");
  return true;
}

void NcclLink::start(std::span<const LinkPart> sent, std::span<const LinkPart> received) {
  give([&](CUstream stream) { return give_parts(sent, received, stream); });
}

void NcclLink::start(const LinkCollective& what) {
  give([&](CUstream stream) {
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

void NcclLink::give(const std::function<int(CUstream)>& calls) {
  internal_check(comm_ != nullptr && given_, "a link that is not ready");
  Current current(*device_);
  Running& now = running_.emplace_back();
  now.begin = event();
  record(now.begin);
  now.end = event();
  nccl_->check(nccl_->ncclGroupStart_(), comm_, "beginning an exchange");
  int parts = calls(session_.stream_of(nullptr));
  int end = nccl_->ncclGroupEnd_();  // in any case: the group is the thread's
  given_ = false;
  open_ = true;
  nccl_->check(parts, comm_, "exchanging parts");
  nccl_->check(end, comm_, "exchanging parts");
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
  given_ = true;
  if (std::exchange(open_, false)) record(running_.back().end);
  return true;
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
    running_.pop_front();
  }
  return progress_;
}

bool NcclLink::abort(double seconds) noexcept {
  if (comm_ == nullptr) return true;
  Clock::time_point by = after(seconds);
  try {
    bool over = ended(nccl_, device_, std::exchange(comm_, nullptr), by);
    double left = std::chrono::duration<double>(by - Clock::now()).count();
    return over && is_quiet(std::max(0.0, left));
  } catch (const std::exception&) {  // no memory for it, or the device fails
    return false;
  }
}

// Whether the stream comes to its end within the time.
bool NcclLink::is_quiet(double seconds) noexcept {
  if (running_.empty()) return true;
  try {
    Current current(*device_);
    CUevent last = event();
    free_.push_back(last);  // whatever comes of it
    record(last);
    for (Clock::time_point by = after(seconds); !is_reached(last);) {
      if (Clock::now() > by) return false;
      std::this_thread::sleep_for(kPause);
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace tile::cuda
