#include "runtime/ranks/device/device_exchange.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "core/support/control.h"
#include "runtime/engine/engine.h"

namespace tile {
namespace {

using Clock = std::chrono::steady_clock;

// [guide] Streams take 1,024 launches before the thread that gives them more waits.
constexpr size_t kMostQueued = 512;
// How often the other ranks and this thread's control are asked.
constexpr std::chrono::milliseconds kAsked(1);
// How long a wait only looks, as waits of the driver do, and how long it then rests between two
// looks: a rest of 20 us takes some 70.
constexpr std::chrono::microseconds kSpinning(20'000), kPause(20);
// How long ranks that gave up wait for each other's word: who then says nothing is silent.
constexpr double kWordSeconds = 2;
// How long a rank whose link fails waits for another's word why.
constexpr double kReasonSeconds = 0.5;
// What a word of a rank that waits in vain begins with.
constexpr const char* kNoAnswer = "nothing came for ";

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", seconds);
  return text;
}

constexpr size_t kAlignment = 64;  // of parts in the host's memory: a cache line
size_t rounded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Calls `work`, whose errors belong to this place of the text.
template <class Work>
void located(Span where, Work&& work) {
  try {
    work();
  } catch (const Failure& failure) {
    Diagnostic diagnostic = failure.diagnostic();
    diagnostic.span = where;
    throw Failure(diagnostic);
  }
}

}  // namespace

void DeviceExchanges::mark(Span where) {
  located(where, [&] { link_->mark(); });
}

std::optional<size_t> DeviceExchanges::exchange(const LinkExchange& parts, LinkManner how,
                                                const std::string& what, Span where) {
  if (link_ == nullptr) {
    located(where, [&] { staged(parts, what); });
    return std::nullopt;
  }
  return started([&](DeviceLink& link) { return link.start(parts, how); }, how.lane, what, where);
}

std::optional<size_t> DeviceExchanges::exchange(const LinkCollective& collective, LinkLane lane,
                                                const std::string& what, Span where) {
  return started([&](DeviceLink& link) { return link.start(collective, lane); }, lane, what, where);
}

void DeviceExchanges::await(size_t number, Span where) {
  settle();
  located(where, [&] { link_->await(number); });
}

size_t DeviceExchanges::started(const std::function<size_t(DeviceLink&)>& start, LinkLane lane,
                                const std::string& what, Span where) {
  settle();
  if (end_.is_dead()) {
    fail(Stage::run, "rank", where, "the mesh failed before the " + what);
  }
  DeviceLink& link = *link_;
  if (started_.empty()) before_ = link.progress().done;
  started_.push_back({what, where});
  size_t number = 0;
  located(where, [&] { number = start(link); });
  unsettled_ = started_.back();
  lane == LinkLane::in_line ? settle() : look();
  return number;
}

void DeviceExchanges::look() {
  if (!unsettled_) return;
  bool given = false;
  located(unsettled_->where,
          [&] { given = of_link(*unsettled_, [&] { return link_->is_given(); }); });
  if (given) unsettled_.reset();
}

void DeviceExchanges::settle() {
  if (!unsettled_) return;
  wait(*unsettled_, [&] { return link_->is_given(); }, [] { return false; });
  unsettled_.reset();
}

void DeviceExchanges::before_kernels(size_t count) {
  if (started_.empty() || link_ != end_.link()) return;  // or they are recorded
  queued_ += count;
  if (queued_ <= kMostQueued) return;
  finish();
  queued_ = count;
}

void DeviceExchanges::finish() {
  if (started_.empty()) return;
  settle();
  DeviceLink& link = *link_;
  DeviceLink::Progress seen{before_, before_};
  auto look = [&] {
    DeviceLink::Progress now = link.progress();
    // A device that has not come to the exchange computes still.
    bool moved = now.done != seen.done || now.begun != seen.begun || now.begun == now.done;
    seen = now;
    return moved;
  };
  while (seen.done < before_ + started_.size()) {
    const Named& first = started_[seen.done - before_];
    size_t done = seen.done;
    wait(first, [&] { return seen.done > done; }, look);
  }
  started_.clear();
  queued_ = 0;
}

std::vector<uint64_t> DeviceExchanges::said_by_all(LinkedPeers& peers, uint64_t own,
                                                   const Named& first) {
  std::optional<std::vector<uint64_t>> all;
  auto is_over = [&] {
    all = peers.said();
    return all.has_value();
  };
  peers.say(own);
  wait(first, is_over, [] { return false; });
  return std::move(*all);
}

std::vector<std::byte*> DeviceExchanges::landings(std::span<const LinkPart> sent,
                                                  RecordingLink& link, const Named& first) {
  std::optional<std::vector<std::byte*>> all;
  auto is_over = [&] {
    all = link.landings(sent);
    return all.has_value();
  };
  wait(first, is_over, [] { return false; });
  return std::move(*all);
}

void DeviceExchanges::finish_replay(std::vector<Named> exchanges) {
  started_ = std::move(exchanges);
  before_ = 0;
  finish();
}

void DeviceExchanges::wait(const Named& of, const std::function<bool()>& is_over,
                           const std::function<bool()>& moves) {
  Clock::time_point begin = Clock::now(), moved = begin, asked = begin;
  const std::chrono::duration<double> timeout(transport_.timeout());
  located(of.where, [&] {
    while (!of_link(of, is_over)) {
      Clock::time_point now = Clock::now();
      if (of_link(of, moves)) moved = now;
      if (now - moved > timeout) fail_without_answer(of);
      if (now - asked > kAsked) {
        asked = now;
        look_around(of);
      }
      if (now - begin > kSpinning) {
        std::this_thread::sleep_for(kPause);
      } else {
        std::this_thread::yield();
      }
    }
  });
}

// What the link answers. It may fail because another rank's end did: then that rank says why.
bool DeviceExchanges::of_link(const Named& of, const std::function<bool()>& question) {
  try {
    return question();
  } catch (const Failure& failure) {
    if (failure.diagnostic().code != "nccl") throw;
    std::vector<std::pair<size_t, std::string>> words = transport_.last_words(kReasonSeconds);
    if (words.empty()) throw;
    fail_with(words.front().first, transport_, of.what, words.front().second);
  }
}

// Ranks that fail say so over the transport.
void DeviceExchanges::look_around(const Named& of) {
  Control* control = current_control();
  if (control != nullptr && control->is_over()) throw control->reason(of.where);
  std::vector<std::pair<size_t, std::string>> words = transport_.last_words(0);
  if (words.empty()) return;
  const auto& [rank, why] = words.front();
  if (why.starts_with(kNoAnswer)) fail_without_answer(of);
  fail_with(rank, transport_, of.what, why);
}

// A device does not say whom it waits for. All ranks that wait in vain say that they do; the first
// one that does not is who is missing.
void DeviceExchanges::fail_without_answer(const Named& of) {
  double seconds = transport_.timeout();
  transport_.abort(kNoAnswer + seconds_text(seconds) + " s in the " + of.what);
  std::vector<bool> heard(transport_.ranks());
  heard[transport_.rank()] = true;
  for (const auto& [rank, why] : transport_.last_words(kWordSeconds)) heard[rank] = true;
  auto silent = std::find(heard.begin(), heard.end(), false);
  if (silent == heard.end()) {
    fail(Stage::run, "rank", {},
         kNoAnswer + seconds_text(seconds) + " s in the " + of.what + ", and all ranks wait",
         "a GPU or its connection to the others hangs");
  }
  fail_silent(static_cast<size_t>(silent - heard.begin()), transport_, seconds, of.what);
}

void DeviceExchanges::copy(std::span<const RowCopy> copies) {
  for (const RowCopy& rows : copies) end_.device().copy(rows);
}

void DeviceExchanges::staged(const LinkExchange& parts, const std::string& what) {
  copy(parts.packs);
  size_t bytes = 0;
  for (const LinkPart& part : parts.sent) bytes += rounded(part.bytes);
  for (const LinkPart& part : parts.received) bytes += rounded(part.bytes);
  std::byte* next = end_.staging(bytes);
  DeviceSession& session = *end_.engine().session();
  std::vector<SentPart> out;
  std::vector<ReceivedPart> in;
  for (const LinkPart& part : parts.sent) {
    end_.device().copy_to_host(next, part.data, part.bytes);
    out.push_back({part.rank, next, part.bytes});
    next += rounded(part.bytes);
  }
  session.synchronize(nullptr);
  for (const LinkPart& part : parts.received) {
    in.push_back({part.rank, next, part.bytes});
    next += rounded(part.bytes);
  }
  transport_.exchange(out, in, what);
  for (size_t i = 0; i < parts.received.size(); ++i) {
    session.copy_in(parts.received[i].data, in[i].data, in[i].bytes, nullptr);
  }
  copy(parts.unpacks);
}

}  // namespace tile
