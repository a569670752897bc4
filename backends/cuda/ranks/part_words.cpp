#include "backends/cuda/ranks/part_words.h"

#include <cstdint>

#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

// More parts than any recording has.
constexpr uint32_t kAllCame = INT32_MAX;

}  // namespace

PartWords::PartWords(const RecordingPeer& peer, Session& session, size_t parts)
    : peer_(peer),
      signals_(std::make_shared<const Signals>(session, kFirstCount + peer.ranks + parts)) {}
PartWords::~PartWords() { peer_.room->withdraw(peer_.rank, signals_.get()); }

void PartWords::land(std::span<const LinkPart> parts) {
  PeerRoom::Landings own;
  own.signals = signals_;
  own.first_word = kFirstCount;
  for (const LinkPart& part : parts) {
    if (part.bytes != 0) own.parts[part.rank].emplace_back(part.data, part.bytes);
  }
  peer_.room->land(peer_.rank, peer_.run, std::move(own));
}

std::optional<std::vector<std::byte*>> PartWords::landings(std::span<const LinkPart> sent) {
  if (peer_.room->is_refused(peer_.run)) {
    fail(Stage::run, "cuda", {}, "another rank could not record its run");
  }
  auto all = peer_.room->landings(peer_.run, peer_.ranks);
  if (!all) return std::nullopt;
  landings_ = std::move(*all);
  std::vector<std::byte*> found;
  std::map<size_t, size_t> next;
  for (const LinkPart& part : sent) {
    if (part.bytes == 0) {
      found.push_back(nullptr);
      continue;
    }
    const auto& parts = landings_[part.rank].parts[peer_.rank];
    size_t number = next[part.rank]++;
    internal_check(number < parts.size() && parts[number].second == part.bytes,
                   "recorded parts that nobody wants");
    found.push_back(parts[number].first);
  }
  return found;
}

void PartWords::push(const LinkPart& part, SignalBatch& batch) {
  const PeerRoom::Landings& there = landings_.at(part.rank);
  batch.write(*there.signals, there.first_word + peer_.rank, ++pushed_[part.rank]);
}
void PartWords::expect(const LinkPart& part, size_t exchange) {
  expected_[part.rank] = ++come_[part.rank];
  last_expected_ = exchange;
}
void PartWords::await_pushed(SignalBatch& batch) {
  if (!expects()) return;
  begin(last_expected_, batch);
  for (auto [rank, count] : expected_) batch.wait_for(*signals_, kFirstCount + rank, count);
  expected_.clear();
  end(batch);
}

void PartWords::offer(const LinkPart& part, SignalBatch& batch) {
  auto [word, is_new] = group_.try_emplace(part.rank, 0);
  if (is_new) {
    word->second = kFirstCount + peer_.ranks + parts_++;
    internal_check(word->second < signals_->count(), "a recorded link with too many parts");
    batch.write(*signals_, word->second, 1);
  }
  peer_.room->offer(peer_.rank, part.rank,
                    {part.data, part.bytes, nullptr, signals_, word->second, part.more});
}

std::optional<PeerRoom::Part> PartWords::take(const LinkPart& part) {
  if (peer_.room->is_refused(peer_.run)) {
    fail(Stage::run, "cuda", {}, "another rank could not record its run");
  }
  return peer_.room->take_recorded(part.rank, peer_.rank);
}

bool PartWords::await_offered(const PeerRoom::Part& from, size_t exchange, SignalBatch& batch) {
  if (!open_.emplace(from.signals, from.signal).second) return false;
  begin(exchange, batch);
  batch.wait(*from.signals, from.signal, 1);
  return true;
}
void PartWords::fetched(const PeerRoom::Part& from, SignalBatch& batch) {
  if (from.more) return;
  batch.write(*from.signals, from.signal, 0);
  open_.erase({from.signals, from.signal});
  fetched_.emplace(from.signals, from.signal);
}
void PartWords::end_group(size_t exchange, SignalBatch& batch) {
  if (!group_.empty()) begin(exchange, batch);
  for (auto [rank, word] : group_) batch.wait(*signals_, word, 0);
  group_.clear();
  end(batch);
}

void PartWords::begin(size_t exchange, SignalBatch& batch) {
  if (begun_ == exchange) return;
  begun_ = exchange;
  batch.write(*signals_, kBegun, static_cast<uint32_t>(begun_));
}
void PartWords::end(SignalBatch& batch) {
  if (done_ == begun_) return;
  done_ = begun_;
  batch.write(*signals_, kDone, static_cast<uint32_t>(done_));
}

DeviceLink::Progress PartWords::progress() const {
  return {signals_->value(kBegun), signals_->value(kDone)};
}
void PartWords::begin_run() const {
  signals_->set(kBegun, 0);
  signals_->set(kDone, 0);
}
// All parts have come: nobody counts on before all ranks have said that they begin a run.
void PartWords::end_run() const {
  for (size_t rank = 0; rank < peer_.ranks; ++rank) signals_->set(kFirstCount + rank, 0);
}
void PartWords::let_go() const {
  for (size_t rank = 0; rank < peer_.ranks; ++rank) signals_->set(kFirstCount + rank, kAllCame);
  for (size_t part = 0; part < parts_; ++part) signals_->set(kFirstCount + peer_.ranks + part, 0);
  for (const auto& [signals, word] : fetched_) signals->set(word, 1);
}

}  // namespace tile::cuda
