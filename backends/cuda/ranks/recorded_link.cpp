#include "backends/cuda/ranks/recorded_link.h"

#include <chrono>
#include <thread>
#include <utility>

#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kCloseSeconds = 5;               // for a run that its owner did not wait for
constexpr std::chrono::microseconds kPause(100);  // between two looks at what ends

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

RecordedLink::RecordedLink(RecordingPeer peer, Session& session, size_t parts)
    : peer_(std::move(peer)),
      session_(session),
      device_(session.device()),
      driver_(device_->driver()) {
  Current current(*device_);
  signals_ = std::make_shared<const Signals>(session, kFirstPart + parts);
  int least = 0, most = 0;
  session_.check(driver_.cuCtxGetStreamPriorityRange_(&least, &most), "asking for priorities");
  session_.check(driver_.cuStreamCreateWithPriority_(&beside_, CU_STREAM_NON_BLOCKING, most),
                 "making a stream");
}

RecordedLink::~RecordedLink() {
  abort(kCloseSeconds);
  peer_.room->withdraw(peer_.rank);
  try {
    Current current(*device_);
    for (CUevent event : events_) driver_.cuEventDestroy_(event);
    if (beside_ != nullptr) driver_.cuStreamDestroy_(beside_);
  } catch (const Failure&) {
    // The context is gone.
  }
}

CUevent RecordedLink::event() {
  CUevent made = nullptr;
  session_.check(driver_.cuEventCreate_(&made, CU_EVENT_DISABLE_TIMING), "making an event");
  events_.push_back(made);
  return made;
}
void RecordedLink::record(CUevent event, CUstream stream) {
  session_.check(driver_.cuEventRecord_(event, stream), "recording an event");
}
void RecordedLink::wait(CUstream stream, CUevent event) {
  session_.check(driver_.cuStreamWaitEvent_(stream, event, CU_EVENT_WAIT_DEFAULT),
                 "ordering streams");
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
  CUevent end = event();
  record(end, beside_);
  wait(own_, end);
}

// With the batch what is held goes, too, if it stands at the batch's beginning.
void RecordedLink::give(SignalBatch& batch, CUstream stream) {
  batch.give(session_, stream);
  if (ends_.empty() || ends_.back() != nullptr || stream != beside_) return;
  ends_.back() = event();
  record(ends_.back(), stream);
}
void RecordedLink::give_held() {
  if (!held_.is_empty()) give(held_, beside_);
}

void RecordedLink::mark() {
  Current current(*device_);
  marks_.push_back(event());
  record(marks_.back(), own_);
}

size_t RecordedLink::start(const LinkExchange& what, LinkManner how) {
  internal_check(own_ != nullptr && !open_, "a recorded link that is not ready");
  Current current(*device_);
  if (how.lane == LinkLane::in_line && !ends_.empty()) await(ends_.size() - 1);
  Open& now = open_.emplace();
  now.stream = how.lane == LinkLane::in_line ? own_ : beside_;
  now.is_piece = how.copies && how.lane == LinkLane::beside;
  if (now.is_piece) {  // they follow each other on all ranks alike: what ends one begins the next
    now.signalled = std::exchange(held_, {});
  } else {
    give_held();
  }
  if (now.stream != own_) {
    if (marks_.empty()) mark();
    wait(now.stream, marks_.front());
    marks_.pop_front();
  }
  for (const RowCopy& rows : what.packs) peer_.rows->copy(session_, rows, now.stream);
  now.signalled.write(*signals_, kBegun, static_cast<uint32_t>(ends_.size() + 1));
  for (const LinkPart& part : what.sent) {
    if (part.bytes == 0) continue;
    size_t word = kFirstPart + parts_++;
    internal_check(word < signals_->count(), "a recorded link with too many parts");
    now.signalled.write(*signals_, word, 1);
    now.sent.push_back(word);
    peer_.room->offer(peer_.rank, part.rank, {part.data, part.bytes, nullptr, signals_, word});
  }
  for (const LinkPart& part : what.received) {
    if (part.bytes != 0) now.awaited.push_back(part);
  }
  now.receives = !now.awaited.empty();
  now.unpacks.assign(what.unpacks.begin(), what.unpacks.end());
  return ends_.size();  // the words are written before the stream waits for any
}

size_t RecordedLink::start(const LinkCollective&, LinkLane) {
  internal_check(false, "a recorded link has no collectives");
  return 0;
}

void RecordedLink::copy(const PeerRoom::Part& from, const LinkPart& to) {
  internal_check(from.bytes == to.bytes && from.signals, "recorded parts of another size");
  SignalBatch& signalled = open_->signalled;
  signalled.wait(*from.signals, from.signal, 1);
  give(signalled, open_->stream);
  session_.check(
      driver_.cuMemcpyDtoDAsync_(address(to.data), address(from.data), to.bytes, open_->stream),
      "copying from another GPU");
  signalled.write(*from.signals, from.signal, 0);
  received_.push_back({from.signals, from.signal});
}

bool RecordedLink::is_given() {
  if (!open_) return true;
  if (peer_.room->is_refused(peer_.run)) {
    fail(Stage::run, "cuda", {}, "another rank could not record its run");
  }
  Current current(*device_);
  while (!open_->awaited.empty()) {
    const LinkPart& part = open_->awaited.front();
    std::optional<PeerRoom::Part> from = peer_.room->take_recorded(part.rank, peer_.rank);
    if (!from) return false;
    copy(*from, part);
    open_->awaited.pop_front();
  }
  end_of_given(*open_);
  open_.reset();
  return true;
}

// The stream comes behind the copies that others make of what it sent.
void RecordedLink::end_of_given(Open& now) {
  if (!now.receives) give(now.signalled, now.stream);  // others wait for the words of its parts
  for (size_t word : now.sent) now.signalled.wait(*signals_, word, 0);
  if (!now.unpacks.empty()) give(now.signalled, now.stream);
  for (const RowCopy& rows : now.unpacks) peer_.rows->copy(session_, rows, now.stream);
  now.signalled.write(*signals_, kDone, static_cast<uint32_t>(ends_.size() + 1));
  if (now.is_piece) {
    internal_check(ends_.empty() || ends_.back() != nullptr, "what is held of two exchanges");
    held_ = std::move(now.signalled);
    ends_.push_back(nullptr);
    return;
  }
  now.signalled.give(session_, now.stream);
  ends_.push_back(event());
  record(ends_.back(), now.stream);
}

void RecordedLink::await(size_t exchange) {
  internal_check(!open_ && exchange < ends_.size(), "an exchange that was not given is awaited");
  Current current(*device_);
  if (ends_[exchange] == nullptr) give_held();
  wait(own_, ends_[exchange]);
}

void RecordedLink::run(Recording& recording) {
  Current current(*device_);
  if (last_.end == nullptr) last_.end = event();
  signals_->set(kBegun, 0);
  signals_->set(kDone, 0);
  peer_.room->begin_replay(peer_.rank);
  last_.state = State::given;
  recording.run(nullptr);
  record_end();
}

void RecordedLink::record_end() {
  record(last_.end, session_.stream_of(nullptr));
  last_.state = State::has_end;
}

// Whether the device is done with the last run.
bool RecordedLink::is_over() {
  if (last_.state == State::over) return true;
  if (last_.state == State::given) record_end();
  CUresult result = driver_.cuEventQuery_(last_.end);
  if (result == CUDA_ERROR_NOT_READY) return false;
  session_.check(result, "looking at an event");
  last_.state = State::over;
  peer_.room->end_replay(peer_.rank);
  return true;
}

DeviceLink::Progress RecordedLink::progress() {
  Current current(*device_);
  if (is_over()) return {ends_.size(), ends_.size()};
  size_t begun = signals_->value(kBegun), done = signals_->value(kDone);
  // Behind the last exchange the device computes still, and the run is not over.
  if (done == ends_.size()) return {done - 1, done - 1};
  return {begun, done};
}

// Whatever the streams wait for is there, or nobody waits for it any more.
void RecordedLink::let_go() const {
  for (size_t part = 0; part < parts_; ++part) signals_->set(kFirstPart + part, 0);
  for (const Received& one : received_) one.signals->set(one.signal, 1);
}

// Others copy from this rank's memory until their devices are done, too.
bool RecordedLink::abort(double seconds) noexcept {
  if (last_.state == State::over) return true;
  auto by = Clock::now() +
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  try {
    Current current(*device_);
    while (!is_over()) {
      if (Clock::now() > by) return false;
      let_go();
      std::this_thread::sleep_for(kPause);
    }
    while (!peer_.room->is_quiet()) {
      if (Clock::now() > by) return false;
      std::this_thread::sleep_for(kPause);
    }
    return true;
  } catch (const std::exception&) {  // the device fails
    return false;
  }
}

}  // namespace tile::cuda
