#include "backends/cuda/ranks/recorded_link.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kCloseSeconds = 5;               // for a run that its owner did not wait for
constexpr std::chrono::microseconds kPause(100);  // between two looks at what ends
// [measured] A kernel's copy to another GPU begins some 5 us before a copy engine's and costs the
// host 3 us less, but on two H200 it moves 160 bytes in a nanosecond.
constexpr size_t kMostByKernel = 2 << 20;
constexpr CUevent kHeld = nullptr;  // of an exchange whose end is not given yet

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

RecordedLink::RecordedLink(RecordingPeer peer, Session& session, size_t parts)
    : peer_(std::move(peer)),
      session_(session),
      device_(session.device()),
      driver_(device_->driver()) {
  Current current(*device_);
  words_.emplace(peer_, session, parts);
  int least = 0, most = 0;
  session_.check(driver_.cuCtxGetStreamPriorityRange_(&least, &most), "asking for priorities");
  session_.check(driver_.cuStreamCreateWithPriority_(&beside_, CU_STREAM_NON_BLOCKING, most),
                 "making a stream");
}

RecordedLink::~RecordedLink() {
  is_quiet_within(kCloseSeconds);
  try {
    Current current(*device_);
    for (CUevent event : events_) driver_.cuEventDestroy_(event);
    if (beside_ != nullptr) driver_.cuStreamDestroy_(beside_);
  } catch (const Failure&) {
    // The context is gone.
  }
}

// An event behind what the stream was given.
CUevent RecordedLink::recorded(CUstream stream) {
  CUevent made = nullptr;
  session_.check(driver_.cuEventCreate_(&made, CU_EVENT_DISABLE_TIMING), "making an event");
  events_.push_back(made);
  session_.check(driver_.cuEventRecord_(made, stream), "recording an event");
  return made;
}
void RecordedLink::wait(CUstream stream, CUevent event) {
  session_.check(driver_.cuStreamWaitEvent_(stream, event, CU_EVENT_WAIT_DEFAULT),
                 "ordering streams");
}

void RecordedLink::land(std::span<const LinkPart> parts) { words_->land(parts); }
std::optional<std::vector<std::byte*>> RecordedLink::landings(std::span<const LinkPart> sent) {
  return words_->landings(sent);
}

std::unique_ptr<Recording> RecordedLink::record(const std::function<void(void*)>& work) {
  return session_.record_streams([&](void* stream) {
    own_ = static_cast<CUstream>(stream);
    work(stream);
  });
}

void* RecordedLink::beside(size_t exchange) {
  internal_check(!open_ && exchange < ends_.size(), "work beside an exchange that was not given");
  Current current(*device_);
  give_held();
  wait(beside_, ends_[exchange]);
  return beside_;
}

void RecordedLink::join() {
  Current current(*device_);
  wait(own_, recorded(beside_));
}

// With what is held the exchanges end that wait for it.
void RecordedLink::give(SignalBatch& batch, CUstream stream) {
  batch.give(session_, stream);
  if (&batch != &held_ || std::ranges::count(ends_, kHeld) == 0) return;
  std::ranges::replace(ends_, kHeld, recorded(stream));
}
void RecordedLink::give_held() {
  words_->await_pushed(held_);
  if (!held_.is_empty()) give(held_, beside_);
}

void RecordedLink::mark() {
  Current current(*device_);
  marks_.push_back(recorded(own_));
}

size_t RecordedLink::start(const LinkExchange& what, LinkManner how) {
  internal_check(own_ != nullptr && !open_, "a recorded link that is not ready");
  Current current(*device_);
  if (how.lane == LinkLane::in_line && !ends_.empty()) await(ends_.size() - 1);
  bool is_piece = how.copies && how.lane == LinkLane::beside;
  if (!is_piece) give_held();
  Open& now = open_.emplace();
  now.is_piece = is_piece;
  now.more = how.more;
  now.stream = how.lane == LinkLane::in_line ? own_ : beside_;
  now.unpacks.assign(what.unpacks.begin(), what.unpacks.end());
  if (now.stream != own_) {
    if (marks_.empty()) mark();
    wait(now.stream, marks_.front());
    marks_.pop_front();
  }
  for (const RowCopy& rows : what.packs) peer_.rows->copy(session_, rows, now.stream);
  if (!how.pushes) words_->await_pushed(words());  // of pieces before: in their order
  for (const LinkPart& part : what.sent) {
    if (part.bytes == 0) continue;
    if (how.pushes) {
      push(part);
    } else {
      words_->offer(part, words());
      now.offers = true;
    }
  }
  for (const LinkPart& part : what.received) {
    if (part.bytes == 0) continue;
    if (how.pushes) {
      words_->expect(part, ends_.size() + 1);
    } else {
      now.awaited.push_back(part);
    }
  }
  return ends_.size();  // the words are written before the stream waits for any
}

size_t RecordedLink::start(const LinkCollective&, LinkLane) {
  internal_check(false, "a recorded link has no collectives");
  return 0;
}

void RecordedLink::push(const LinkPart& part) {
  if (part.data != part.to) {
    CUstream stream = open_->stream;
    if (part.bytes <= kMostByKernel) {
      RowCopy all{{part.data, 0, 0}, {part.to, 0, 0}, part.bytes};
      peer_.rows->copy(session_, all, stream);
    } else {
      session_.check(
          driver_.cuMemcpyDtoDAsync_(address(part.to), address(part.data), part.bytes, stream),
          "copying to another GPU");
    }
  }
  words_->push(part, words());
}

void RecordedLink::fetch(const PeerRoom::Part& from, const LinkPart& to) {
  internal_check(from.bytes == to.bytes && from.signals, "recorded parts of another size");
  if (words_->await_offered(from, ends_.size() + 1, words()) || open_->offers) {
    give(words(), open_->stream);
    open_->offers = false;
  }
  session_.check(
      driver_.cuMemcpyDtoDAsync_(address(to.data), address(from.data), to.bytes, open_->stream),
      "copying from another GPU");
  words_->fetched(from, words());
}

bool RecordedLink::is_given() {
  if (!open_) return true;
  Current current(*device_);
  while (!open_->awaited.empty()) {
    const LinkPart& part = open_->awaited.front();
    std::optional<PeerRoom::Part> from = words_->take(part);
    if (!from) return false;
    fetch(*from, part);
    open_->awaited.pop_front();
  }
  end_of_given();
  open_.reset();
  return true;
}

// What it is sent from may change behind its end: the stream comes behind the copies of others. Of
// a group that goes on it stays as it is.
void RecordedLink::end_of_given() {
  Open& now = *open_;
  if (now.offers) give(words(), now.stream);
  if (!now.more) words_->end_group(ends_.size() + 1, words());
  if (!now.is_piece || !now.unpacks.empty()) words_->await_pushed(words());
  bool waits = !now.is_piece || !now.unpacks.empty();
  if (waits && !now.more && !words().is_empty()) give(words(), now.stream);
  for (const RowCopy& rows : now.unpacks) peer_.rows->copy(session_, rows, now.stream);
  bool holds = now.is_piece && !now.more && (!held_.is_empty() || words_->expects());
  ends_.push_back(holds ? nullptr : recorded(now.stream));
}

void RecordedLink::await(size_t exchange) {
  internal_check(!open_ && exchange < ends_.size(), "an exchange that was not given is awaited");
  Current current(*device_);
  if (ends_[exchange] == nullptr) give_held();
  wait(own_, ends_[exchange]);
}

void RecordedLink::run(Recording& recording) {
  Current current(*device_);
  words_->begin_run();
  bool begins = peer_.room->begin_replay(peer_.rank, peer_.run);
  last_.state = begins ? State::given : State::refused;
  if (begins) recording.run(nullptr);
}

// Whether the device is done with the last run.
bool RecordedLink::is_over() {
  if (last_.state == State::over || last_.state == State::refused) return true;
  CUstream stream = session_.stream_of(nullptr);
  if (last_.end == nullptr) last_.end = recorded(stream);
  if (last_.state == State::given) {
    session_.check(driver_.cuEventRecord_(last_.end, stream), "recording an event");
    last_.state = State::has_end;
  }
  CUresult result = driver_.cuEventQuery_(last_.end);
  if (result == CUDA_ERROR_NOT_READY) return false;
  session_.check(result, "looking at an event");
  last_.state = State::over;
  session_.forget(stream);
  words_->end_run();
  peer_.room->end_replay(peer_.rank);
  return true;
}

DeviceLink::Progress RecordedLink::progress() {
  Current current(*device_);
  if (last_.state == State::refused) return {1, 0};  // until it is said why
  if (is_over()) return {ends_.size(), ends_.size()};
  Progress now = words_->progress();
  // Behind the last exchange the device computes still, and the run is not over.
  if (now.done == ends_.size()) return {now.done - 1, now.done - 1};
  return now;
}

// Whether this rank's device is done with the recording, and those of others, which copy from its
// memory and to it.
bool RecordedLink::is_quiet_within(double seconds) noexcept {
  auto by = Clock::now() +
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  try {
    Current current(*device_);
    while (!is_over()) {
      if (Clock::now() > by) return false;
      words_->let_go();
      std::this_thread::sleep_for(kPause);
    }
    while (!peer_.room->is_quiet(peer_.run)) {
      if (Clock::now() > by) return false;
      std::this_thread::sleep_for(kPause);
    }
    return true;
  } catch (const std::exception&) {  // the device fails
    return false;
  }
}

bool RecordedLink::abort(double seconds) noexcept {
  peer_.room->close();
  return is_quiet_within(seconds);
}

}  // namespace tile::cuda
