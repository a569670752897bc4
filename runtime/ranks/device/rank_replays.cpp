#include "runtime/ranks/device/rank_replays.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backends/trace.h"
#include "runtime/engine/engine.h"
#include "runtime/ranks/kept.h"

namespace tile {
namespace {

// What a rank says before a run, where it is no recording's number.
constexpr uint64_t kPlain = 0;  // it runs by itself
constexpr uint64_t kAgain = 1;  // it had these tensors before, and would record
constexpr uint64_t kFirst = 2;  // numbers of recordings begin here

// Kernels of one at most, as of recordings of one device.
constexpr size_t kMostKernels = 1 << 14;
// A recording gives its place to another only if it has not been used for so many runs.
constexpr uint64_t kStale = 1000;

// How long a device whose run failed may take to come to the end of it.
constexpr double kReplaySeconds = 5;

}  // namespace

RankReplays::RankReplays(const RankExecutable& of, const DevicePlan& plan)
    : of_(of), plan_(plan), landing_(of) {}
RankReplays::~RankReplays() = default;
RankReplays::Entry& RankReplays::room(std::vector<void*> pointers) {
  auto rank = [](const Entry& e) { return std::pair(e.replay != nullptr, e.used); };
  Entry& entry =
      *std::min_element(entries_.begin(), entries_.end(),
                        [&](const Entry& a, const Entry& b) { return rank(a) < rank(b); });
  if (entry.replay && runs_ - entry.used < kStale) return entry;
  entry = {};
  entry.pointers = std::move(pointers);
  entry.used = runs_;
  return entry;
}

// The tensors' entry where they come for the second time or later.
RankReplays::Entry* RankReplays::find(std::span<const TensorView> inputs,
                                      std::span<const TensorView> outputs, const DeviceEnd& end) {
  std::vector<void*> pointers;
  for (std::span<const TensorView> views : {inputs, outputs}) {
    for (const TensorView& view : views) {
      if (!end.takes_in_place(view)) return nullptr;
      pointers.push_back(view.data);
    }
  }
  for (Entry& entry : entries_) {
    if (entry.used == 0 || entry.pointers != pointers) continue;
    entry.used = runs_;
    return &entry;
  }
  room(std::move(pointers));
  return nullptr;
}

DeviceExchanges::Named RankReplays::first() const {
  return {of_.names()[0], of_.program().exchanges[0].what.span};
}
std::vector<uint64_t> RankReplays::agree(const Call& call, uint64_t own) {
  DeviceExchanges exchanges(call.transport, *call.end);
  return exchanges.said_by_all(call.peers, own, first());
}

bool RankReplays::run(Transport& transport, const std::shared_ptr<DeviceEnd>& end,
                      std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                      const Work& work, const std::function<void()>& given) {
  LinkedPeers* peers = end->peers();
  if (peers == nullptr || of_.program().exchanges.empty()) return false;  // on all ranks
  Call call{transport, end, *peers, work};
  // Whoever is in another run waits for ranks that may wait for this one.
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) {
    agree(call, kPlain);
    return false;
  }
  if (end_.expired()) {
    for (Entry& entry : entries_) entry = {};
    end_ = end;
    recordings_ = 0;
  }
  ++runs_;
  bool is_own = end_.lock() == end && !refused_ && !trace::is_kept();
  Entry* entry = is_own ? find(inputs, outputs, *end) : nullptr;
  uint64_t own = entry == nullptr ? kPlain : entry->replay ? entry->number : kAgain;
  std::vector<uint64_t> all = agree(call, own);
  if (std::ranges::count(all, kPlain) != 0) return false;
  bool same = own != kAgain && std::ranges::count(all, own) == std::ssize(all);
  if (!same && !record(call, *entry)) return false;
  replay(call, *entry, given);
  return true;
}

// All ranks record, or none does.
bool RankReplays::record(const Call& call, Entry& entry) {
  entry.replay.reset();
  auto replay = std::make_shared<Replay>();
  // Ranks push where all of them have room for what lands there.
  replay->room = call.end->room_for_recording(plan_.bytes() + landing_.bytes());
  std::vector<uint64_t> all = agree(call, replay->room ? kAgain : kPlain);
  bool pushes = std::ranges::count(all, kPlain) == 0;
  bool made = make(call, *replay, pushes);
  all = agree(call, made ? kAgain : kPlain);
  bool all_made = std::ranges::count(all, kPlain) == 0;
  if (!all_made) {
    replay.reset();
    refused_ = true;
    agree(call, kPlain);  // what was offered for recordings is gone
    return false;
  }
  entry.number = kFirst + recordings_++;
  entry.replay = std::move(replay);
  return true;
}

bool RankReplays::make(const Call& call, Replay& replay, bool pushes) {
  size_t parts = 0, kernels = 0;
  for (const PlacedExchange& one : of_.program().exchanges) parts += one.what.sends.size();
  for (size_t s = 0; s < of_.executables().size(); ++s) kernels += plan_.kernels(s);
  try {
    replay.link = call.peers.recording(parts);
    if (!pushes) {
      replay.room.reset();
      replay.room = call.end->room_for_recording(plan_.bytes());
    }
    if (kernels <= kMostKernels && replay.room) fill(call, replay, pushes);
  } catch (const Failure& failure) {
    const std::string& code = failure.diagnostic().code;
    if (code != "cuda" && code != "memory" && code != "nvrtc") throw;
  }
  if (!replay.recording) call.peers.refuse();
  return replay.recording != nullptr;
}

void RankReplays::fill(const Call& call, Replay& replay, bool pushes) {
  DeviceSession& session = *call.end->engine().session();
  auto memory = [&](size_t bytes) {
    return std::make_unique<DeviceMemory>(session, std::max<size_t>(bytes, 1), nullptr);
  };
  replay.memory = memory(plan_.bytes());
  if (pushes) replay.landing = memory(landing_.bytes());
  session.synchronize(nullptr);  // from now on every stream may use it, of other ranks, too
  std::optional<Landings> landings;
  if (pushes) {
    std::byte* first = replay.landing->data();
    replay.link->land(landing_.received(first));
    DeviceExchanges exchanges(call.transport, *call.end);
    landings.emplace(landing_, first,
                     exchanges.landings(landing_.sent(), *replay.link, this->first()));
  }
  replay.recording = replay.link->record([&](void* stream) {
    RecordedRun run{stream, replay.memory->data(), replay.link.get(),
                    landings ? &*landings : nullptr};
    DeviceStore store(of_, plan_, call.transport, call.end, run);
    call.work(store);
    replay.exchanges = store.end_of_recording();
  });
}

void RankReplays::replay(const Call& call, Entry& entry, const std::function<void()>& given) {
  std::shared_ptr<Replay> replay = entry.replay;
  DeviceExchanges exchanges(call.transport, *call.end, replay->link.get());
  try {
    replay->link->run(*replay->recording);
    given();
    exchanges.finish_replay(replay->exchanges);
  } catch (const std::exception& error) {
    entry = {};
    call.transport.abort(error.what());
    if (!replay->link->abort(kReplaySeconds)) keep_for_ever(replay);
    throw;
  }
}

}  // namespace tile
