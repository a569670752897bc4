#include "runtime/engine/own_code.h"

#include <algorithm>
#include <new>

#include "runtime/engine/concurrency/background.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/lean.h"

namespace tile {
namespace {

bool shares_code(const Executable& e) {
  return !e.saved && std::any_of(e.launches.begin(), e.launches.end(),
                                 [](const Launch& l) { return !l.parameters.empty(); });
}

// The same whose runs nobody counts.
std::shared_ptr<const Executable> uncounted(const Executable& e) {
  auto plain = std::make_shared<Executable>(e);
  plain->own_code_later = nullptr;
  plain->call = call_plan(*plain);
  return plain;
}

std::shared_ptr<const Executable> made_for_its_sizes(const Executable& e) {
  const EngineOptions& options = e.engine->options();
  CallControl control(
      Stage::compile,
      [&] { return background_is_ending() || (options.cancelled && options.cancelled()); },
      options.compile_seconds);
  Controlled now(&control, &options.limits);
  return without_stages(*with_own_code(e));
}

// Whoever has put another in the executable's place meanwhile wins.
void make(const std::weak_ptr<LiveExecutable>& weak) noexcept {
  try {
    std::shared_ptr<LiveExecutable> live = weak.lock();
    if (!live) return;
    std::shared_ptr<const Executable> now = live->snapshot();
    if (!now->own_code_later) return;
    LockingCall call;
    std::shared_ptr<const Executable> next;
    try {
      next = made_for_its_sizes(*now);
    } catch (const std::exception& failure) {
      now->engine->log(LogLevel::warning,
                       std::string("no code of its own for a size: ") + failure.what());
      next = uncounted(*now);
    }
    live->replace(*now, std::move(next));
  } catch (const std::exception&) {  // no memory: what runs goes on
  }
}

}  // namespace

void OwnCode::begin() const noexcept {
  try {
    run_in_background([live = live_] { make(live); });
  } catch (const std::bad_alloc&) {  // neither a thread nor memory
  }
}

std::shared_ptr<LiveExecutable> shown(std::shared_ptr<const Executable> executable,
                                      std::weak_ptr<LoadedProgram> program) {
  auto enough = static_cast<uint32_t>(executable->engine->options().own_code_runs);
  if (enough == 0 || !shares_code(*executable)) {
    return std::make_shared<LiveExecutable>(std::move(executable), std::move(program));
  }
  auto later = std::make_shared<OwnCode>(enough);
  auto counted = std::make_shared<Executable>(*executable);
  counted->own_code_later = later;
  counted->call = call_plan(*counted);
  auto live = std::make_shared<LiveExecutable>(std::move(counted), std::move(program));
  later->live_ = live;
  return live;
}

}  // namespace tile
