#include "runtime/transport/plugin_transport.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "core/support/control.h"

namespace tile {
namespace {

// What notices begin with.
constexpr char kFailed = 'F', kDismissed = 'D';

using Clock = std::chrono::steady_clock;

double seconds_until(std::chrono::time_point<Clock, std::chrono::duration<double>> end) {
  return std::max(0.0, std::chrono::duration<double>(end - Clock::now()).count());
}

// What an exchange asks while it waits.
struct Waiting {
  Control* control;
  const std::function<bool()>& rest;
};
int is_over(void* waiting) { return static_cast<Waiting*>(waiting)->control->is_over() ? 1 : 0; }
int has_rested(void* waiting) { return static_cast<Waiting*>(waiting)->rest() ? 1 : 0; }

}  // namespace

PluginTransport::PluginTransport(tile_transport table, double timeout_seconds)
    : table_(table), timeout_(timeout_seconds) {}
PluginTransport::~PluginTransport() { table_.close(table_.state); }

void PluginTransport::exchange(std::span<const SentPart> sent,
                               std::span<const ReceivedPart> received, const std::string& what) {
  try {
    exchange_parts(sent, received, what);
  } catch (const Failure& failure) {
    abort(failure.diagnostic().message);
    throw;
  }
}

void PluginTransport::exchange_parts(std::span<const SentPart> sent,
                                     std::span<const ReceivedPart> received,
                                     const std::string& what) {
  if (dead_) fail(Stage::run, "rank", {}, "the mesh failed before the " + what);
  std::vector<tile_sent_part> out;
  std::vector<tile_received_part> in;
  for (const SentPart& part : sent) out.push_back({part.rank, part.data, part.bytes});
  for (const ReceivedPart& part : received) in.push_back({part.rank, part.data, part.bytes});
  tile_transport_fault fault{};
  Control* control = current_control();
  Waiting waiting{control, rest()};
  int end = table_.exchange(table_.state, out.data(), out.size(), in.data(), in.size(), timeout_,
                            control == nullptr ? nullptr : is_over, rest() ? has_rested : nullptr,
                            &waiting, &fault);
  if (end == TILE_EXCHANGE_DONE) return;
  dead_ = true;
  in_flight_ = fault.in_flight != 0;
  if (end == TILE_EXCHANGE_CANCELLED) throw control->reason({});
  if (end == TILE_EXCHANGE_SILENT) fail_silent(fault.rank, *this, timeout_, what);
  if (end == TILE_EXCHANGE_NOTICE) {
    auto heard = hear(0);
    fail_with(heard ? heard->first : 0, *this, what, heard ? heard->second : "");
  }
  fault.message[sizeof fault.message - 1] = '\0';
  fail(Stage::run, "rank", {}, "the transport failed in the " + what + ": " + fault.message);
}

void PluginTransport::tell_all(const std::string& notice) noexcept {
  size_t bytes = std::min<size_t>(notice.size(), TILE_NOTICE_BYTES);
  for (size_t r = 0; r < ranks(); ++r) {
    if (r != rank()) table_.tell(table_.state, r, notice.data(), bytes);
  }
}

void PluginTransport::abort(const std::string& why) noexcept {
  dead_ = true;
  if (std::exchange(told_, true)) return;
  try {
    tell_all(kFailed + why);
  } catch (const std::bad_alloc&) {
    tell_all({&kFailed, 1});  // short enough for no allocation
  }
}

// The next rank that says why it failed.
std::optional<std::pair<size_t, std::string>> PluginTransport::hear(double seconds) {
  std::string text(TILE_NOTICE_BYTES, '\0');
  size_t rank = 0;
  int bytes = table_.hear(table_.state, seconds, &rank, text.data());
  if (bytes < 1) return std::nullopt;
  text.resize(static_cast<size_t>(bytes));
  if (text[0] == kDismissed) dismissed_ = true;
  if (text[0] != kFailed) return std::nullopt;
  words_.emplace_back(rank, text.substr(1));
  return words_.back();
}

std::vector<std::pair<size_t, std::string>> PluginTransport::last_words(double seconds) {
  auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (words_.size() + 1 < ranks() && hear(seconds_until(end))) {
  }
  return words_;
}

void PluginTransport::dismiss() noexcept { tell_all({&kDismissed, 1}); }

bool PluginTransport::is_dismissed(double seconds) {
  auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (!dismissed_ && hear(seconds_until(end))) {
  }
  return dismissed_;
}

}  // namespace tile
