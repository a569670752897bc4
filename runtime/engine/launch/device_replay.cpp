#include "runtime/engine/launch/device_replay.h"

#include <algorithm>

#include "core/support/diagnostic.h"

namespace tile {
namespace {

// A recording gives its place to another only if it has not been used for so many runs: dropping
// one waits for the device.
constexpr uint64_t kStale = 1000;

}  // namespace

DeviceReplays::~DeviceReplays() {
  bool any = std::any_of(entries_.begin(), entries_.end(),
                         [](const Entry& e) { return e.recording != nullptr; });
  if (!any) return;
  try {
    session_.finish();  // temporaries may be in use
  } catch (const Failure&) {
    // The device has failed, and nothing runs on it any more.
  }
}

DeviceReplays::Entry* DeviceReplays::find(std::span<void* const> inputs,
                                          std::span<void* const> outputs) {
  for (Entry& e : entries_) {
    if (e.pointers.size() != inputs.size() + outputs.size()) continue;
    bool same = std::equal(inputs.begin(), inputs.end(), e.pointers.begin()) &&
                std::equal(outputs.begin(), outputs.end(),
                           e.pointers.begin() + static_cast<std::ptrdiff_t>(inputs.size()));
    if (same) return &e;
  }
  return nullptr;
}

// In the place of pointers that have no recording, or of the stalest one.
void DeviceReplays::remember(std::span<void* const> inputs, std::span<void* const> outputs) {
  auto rank = [](const Entry& e) { return std::pair(e.recording != nullptr, e.used); };
  Entry& e = *std::min_element(entries_.begin(), entries_.end(),
                               [&](const Entry& a, const Entry& b) { return rank(a) < rank(b); });
  if (e.recording) {
    if (runs_ - e.used < kStale) return;
    session_.finish();
    e.recording.reset();
    e.temporaries.reset();
  }
  e.pointers.assign(inputs.begin(), inputs.end());
  e.pointers.insert(e.pointers.end(), outputs.begin(), outputs.end());
  e.used = runs_;
}

bool DeviceReplays::make(Entry& e, const Launches& launches) {
  try {
    e.temporaries = std::make_unique<DeviceMemory>(session_, temporary_bytes_, nullptr);
    session_.synchronize(nullptr);  // from now on every stream may use them
    e.recording = session_.record([&](void* stream) { launches(e.temporaries->data(), stream); });
  } catch (const Failure& failure) {
    if (failure.diagnostic().code != "memory") throw;
  }
  refused_ = e.recording == nullptr;
  if (refused_) e.temporaries.reset();
  return !refused_;
}

bool DeviceReplays::run(std::span<void* const> inputs, std::span<void* const> outputs, void* stream,
                        const Launches& launches) {
  std::shared_ptr<Recording> recording;
  {
    std::lock_guard lock(mutex_);
    ++runs_;
    if (refused_) return false;
    Entry* e = find(inputs, outputs);
    if (e == nullptr) {
      remember(inputs, outputs);
      return false;
    }
    e->used = runs_;
    if (!e->recording && !make(*e, launches)) return false;
    recording = e->recording;
  }
  recording->run(stream);
  return true;
}

}  // namespace tile
