#include "backends/cuda/ranks/peer_room.h"

#include <algorithm>
#include <utility>

namespace tile::cuda {

std::shared_ptr<PeerRoom> PeerRoom::of(const LinkId& id) {
  static std::mutex mutex;
  static std::map<LinkId, std::weak_ptr<PeerRoom>> rooms;
  std::lock_guard lock(mutex);
  std::erase_if(rooms, [](const auto& room) { return room.second.expired(); });
  std::shared_ptr<PeerRoom> room = rooms[id].lock();
  if (!room) rooms[id] = room = std::make_shared<PeerRoom>();
  return room;
}

void PeerRoom::offer(size_t sender, size_t receiver, const Part& part) {
  std::lock_guard lock(mutex_);
  offered_[{sender, receiver}].push_back(part);
}

CUevent PeerRoom::taken(size_t sender, size_t receiver) {
  std::lock_guard lock(mutex_);
  std::deque<CUevent>& events = taken_[{sender, receiver}];
  if (events.empty()) return nullptr;
  CUevent first = events.front();
  events.pop_front();
  return first;
}

std::vector<CUevent> PeerRoom::leave(size_t sender) {
  std::lock_guard lock(mutex_);
  for (auto& [pair, parts] : offered_) {
    if (pair.first == sender) parts.clear();
  }
  std::vector<CUevent> left;
  for (auto& [pair, events] : taken_) {
    if (pair.first != sender) continue;
    left.insert(left.end(), events.begin(), events.end());
    events.clear();
  }
  return left;
}

std::optional<PeerRoom::Part> PeerRoom::take_recorded(size_t sender, size_t receiver) {
  std::lock_guard lock(mutex_);
  std::deque<Part>& parts = offered_[{sender, receiver}];
  if (parts.empty()) return std::nullopt;
  Part part = std::move(parts.front());
  parts.pop_front();
  return part;
}

void PeerRoom::say(size_t rank, uint64_t run, uint64_t what) {
  std::lock_guard lock(mutex_);
  said_[run % 2][rank] = {run, what};
}

std::optional<std::vector<uint64_t>> PeerRoom::said(uint64_t run, size_t ranks) const {
  std::lock_guard lock(mutex_);
  std::vector<uint64_t> all;
  for (const auto& [rank, one] : said_[run % 2]) {
    if (one.first == run) all.push_back(one.second);
  }
  if (all.size() < ranks) return std::nullopt;
  return all;
}

void PeerRoom::land(size_t receiver, uint64_t run, Landings landings) {
  std::lock_guard lock(mutex_);
  landings_[receiver] = {run, std::move(landings)};
}

std::optional<std::map<size_t, PeerRoom::Landings>> PeerRoom::landings(uint64_t run,
                                                                       size_t ranks) const {
  std::lock_guard lock(mutex_);
  std::map<size_t, Landings> all;
  for (const auto& [rank, one] : landings_) {
    if (one.first == run) all[rank] = one.second;
  }
  if (all.size() < ranks) return std::nullopt;
  return all;
}

void PeerRoom::withdraw(size_t rank, const Signals* of) {
  std::lock_guard lock(mutex_);
  auto landing = landings_.find(rank);
  if (landing != landings_.end() && landing->second.second.signals.get() == of) {
    landings_.erase(landing);
  }
  for (auto& [pair, parts] : offered_) {
    if (pair.first == rank)
      std::erase_if(parts, [&](const Part& p) { return p.signals.get() == of; });
  }
}
void PeerRoom::refuse(uint64_t run) {
  std::lock_guard lock(mutex_);
  refused_ = run;
}
bool PeerRoom::is_refused(uint64_t run) const {
  std::lock_guard lock(mutex_);
  return refused_ == run;
}

bool PeerRoom::begin_replay(size_t rank, uint64_t recording) {
  std::lock_guard lock(mutex_);
  if (!closed_) replaying_[rank] = recording;
  return !closed_;
}
void PeerRoom::end_replay(size_t rank) {
  std::lock_guard lock(mutex_);
  replaying_.erase(rank);
}
bool PeerRoom::is_quiet(uint64_t recording) const {
  std::lock_guard lock(mutex_);
  return std::ranges::none_of(replaying_, [&](const auto& one) { return one.second == recording; });
}
void PeerRoom::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

}  // namespace tile::cuda
