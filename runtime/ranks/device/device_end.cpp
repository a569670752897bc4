#include "runtime/ranks/device/device_end.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "backends/cuda/cuda_backend.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/device_run.h"
#include "runtime/ranks/tell_all.h"

namespace tile {
namespace {

// [measured] Ending NCCL's communicators takes some 0.1 s; one that hangs is left alone.
constexpr double kAbortSeconds = 5;
constexpr std::chrono::microseconds kPause(200);  // between two looks at a link that is made
// [guide] Recordings keep at most such a part of a device's memory.
constexpr size_t kRecordedShare = 16;

using Clock = std::chrono::steady_clock;

std::string rank_text(size_t rank) { return "rank " + std::to_string(rank); }
std::string version_text(int version) {
  return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) +
         "." + std::to_string(version % 100);
}

std::string why_apart(const LinkOffer& a, const LinkOffer& b, size_t i, size_t j) {
  std::string both = "ranks " + std::to_string(i) + " and " + std::to_string(j);
  if (a.version != b.version) {
    return both + " have " + version_text(a.version) + " and " + version_text(b.version);
  }
  if (a.machine == b.machine && a.device == b.device) return both + " share a GPU";
  bool closed = a.own_memory == 0 || b.own_memory == 0;
  if (a.process == b.process && closed) {
    return both + " are of one process, and their memory is of the host's allocator";
  }
  return "";
}

// Makes links with all other ranks, which do the same.
class Connecting {
 public:
  Connecting(const std::shared_ptr<Engine>& engine, Transport& transport)
      : engine_(engine), transport_(transport) {}

  std::shared_ptr<DeviceEnd> run() {
    std::shared_ptr<DeviceEnd> end;
    LinkOffer own;
    std::string no_library;
    if (engine_->session() != nullptr) {
      end = std::make_shared<DeviceEnd>(engine_);
      own = end->device().offer(no_library);
    }
    std::vector<LinkOffer> offers = told_by_all(transport_, own, "offer of a link");
    bool none = std::all_of(offers.begin(), offers.end(),
                            [](const LinkOffer& offer) { return offer.ordinal < 0; });
    if (none || offers.size() == 1) return end;
    std::string why = why_staged(offers);
    if (!why.empty() && own.version == 0 && !no_library.empty()) why += ": " + no_library;
    if (why.empty()) why = linked(*end, offers);
    say(why, offers);
    return end;
  }

 private:
  // Why there is no link; the same ranks have one or none.
  std::string linked(DeviceEnd& end, const std::vector<LinkOffer>& offers) {
    std::string why;
    std::optional<LinkId> id = common_id(end, why);
    if (!id) return why;
    std::unique_ptr<DeviceLink> link;
    // What fails at once is told before anyone waits for the others' ends.
    auto begin = [&] { link = end.device().link(*id, transport_.rank(), offers); };
    if (!all_do(begin, "beginning of a link", why)) return why;
    auto make = [&] {
      if (!is_made(*link)) fail(Stage::run, "nccl", {}, "NCCL did not connect the GPUs in time");
    };
    if (!all_do(make, "making of a link", why)) return why;
    char own = link->peers() != nullptr ? 1 : 0;
    std::vector<char> all = told_by_all(transport_, own, "offer of recordings");
    end.take_link(std::move(link), std::ranges::count(all, 0) == 0);
    return "";
  }

  // Whether no rank's step threw; else why.
  bool all_do(const std::function<void()>& step, const std::string& name, std::string& why) {
    try {
      step();
    } catch (const Failure& failure) {
      why = failure.diagnostic().message;
    }
    std::vector<char> done = told_by_all(transport_, static_cast<char>(why.empty() ? 1 : 0), name);
    auto bad = static_cast<size_t>(std::ranges::find(done, 0) - done.begin());
    if (bad < done.size() && why.empty()) why = rank_text(bad) + " could not be linked";
    return bad == done.size();
  }

  // Rank 0 names the link.
  std::optional<LinkId> common_id(DeviceEnd& end, std::string& why) {
    struct Named {
      char is = 0;
      LinkId id{};
    } named;
    if (transport_.rank() == 0) {
      try {
        named.id = end.device().new_link();
        named.is = 1;
      } catch (const Failure& failure) {
        why = failure.diagnostic().message;
      }
    }
    named = told_by_all(transport_, named, "name of a link").front();
    if (named.is != 0) return named.id;
    if (why.empty()) why = rank_text(0) + " could not name a link";
    return std::nullopt;
  }

  // The others wait for this rank's answer meanwhile: it comes before they take it for silent.
  bool is_made(DeviceLink& link) {
    auto limit = std::chrono::duration<double>(transport_.timeout() / 2);
    for (auto begin = Clock::now(); !link.is_given();) {
      if (Clock::now() - begin > limit) return false;
      Control* control = current_control();
      if (control != nullptr && control->is_over()) throw control->reason({});
      std::this_thread::sleep_for(kPause);
    }
    return true;
  }

  void say(const std::string& why, const std::vector<LinkOffer>& offers) const {
    if (transport_.rank() != 0) return;
    LogLevel level = why.empty() ? LogLevel::info : LogLevel::warning;
    engine_->log(level, transport_text(offers, why));
  }

  const std::shared_ptr<Engine>& engine_;
  Transport& transport_;
};

}  // namespace

DeviceEnd::DeviceEnd(std::shared_ptr<Engine> engine)
    : engine_(std::move(engine)),
      device_(cuda::rank_device(*engine_->session())),
      room_for_recordings_(std::make_shared<std::atomic<int64_t>>(
          static_cast<int64_t>(device_->memory_bytes() / kRecordedShare))) {}
DeviceEnd::~DeviceEnd() { device_->give_back_host_memory(staging_); }

std::byte* DeviceEnd::staging(size_t bytes) {
  if (bytes <= staged_) return staging_;
  device_->give_back_host_memory(std::exchange(staging_, nullptr));
  staged_ = 0;
  staging_ = static_cast<std::byte*>(device_->take_host_memory(bytes));
  staged_ = bytes;
  return staging_;
}

std::shared_ptr<const void> DeviceEnd::room_for_recording(size_t bytes) {
  auto count = static_cast<int64_t>(bytes);
  auto give_back = [count, left = room_for_recordings_](const void*) { *left += count; };
  std::shared_ptr<const void> taken(room_for_recordings_.get(), give_back);
  return room_for_recordings_->fetch_sub(count) >= count ? taken : nullptr;
}

bool DeviceEnd::takes_in_place(const TensorView& view) const {
  bool aligned = reinterpret_cast<uintptr_t>(view.data) % kTensorAlignment == 0;
  return view.memory == Memory::device && aligned &&
         (link_ == nullptr || device_->may_send(view.data));
}

bool DeviceEnd::abort() noexcept {
  dead_ = true;
  return link_ == nullptr || link_->abort(kAbortSeconds);
}

std::string why_staged(std::span<const LinkOffer> offers) {
  for (size_t r = 0; r < offers.size(); ++r) {
    if (offers[r].ordinal < 0) return rank_text(r) + " has no GPU";
    if (offers[r].version == 0) return rank_text(r) + " has no NCCL";
  }
  for (size_t i = 0; i < offers.size(); ++i) {
    for (size_t j = i + 1; j < offers.size(); ++j) {
      if (std::string why = why_apart(offers[i], offers[j], i, j); !why.empty()) return why;
    }
  }
  return "";
}

std::string transport_text(std::span<const LinkOffer> offers, const std::string& why) {
  if (!why.empty()) return "ranks exchange through the host's memory: " + why;
  return "ranks exchange between GPUs over " + version_text(offers.front().version);
}

std::shared_ptr<DeviceEnd> connect_devices(const std::shared_ptr<Engine>& engine,
                                           Transport& transport) {
  try {
    return Connecting(engine, transport).run();
  } catch (const std::exception& error) {
    transport.abort(error.what());
    throw;
  }
}

}  // namespace tile
