#include "runtime/engine/kernel_timer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>

#include "runtime/engine/engine.h"
#include "runtime/engine/side_by_side.h"

namespace tile {
namespace {

using Clock = std::chrono::steady_clock;

// The bytes that a launch's argument spans, whatever its strides.
size_t reach(const Launch& launch, const nest::Buffer& b) {
  int64_t elements = 1;
  for (size_t d = 0; d < b.shape.size(); ++d) {
    int64_t extent = d == 0 && !b.extent.empty() ? launch.parameters.at(0) : b.shape[d];
    elements += std::max<int64_t>(0, extent - 1) * std::max<int64_t>(0, b.strides[d]);
  }
  return static_cast<size_t>(elements) * byte_size(b.type);
}

}  // namespace

// Zeros for every argument and a workspace, where the backend's launches want them.
struct KernelTimer::Memory {
  Memory(DeviceSession* device, const Launch& launch) : session(device) {
    for (size_t i = 0; i < launch.nest.argument_count(); ++i)
      pointers.push_back(add(reach(launch, launch.nest.buffers[i])));
  }
  ~Memory() {
    for (auto [data, bytes] : blocks) {
      if (session != nullptr) {
        session->release(data, bytes, nullptr);
      } else {
        ::operator delete(data, std::align_val_t{64});
      }
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* add(size_t bytes) {
    bytes = std::max<size_t>(bytes, 64);
    void* data = session != nullptr ? session->allocate(bytes, nullptr)
                                    : ::operator new(bytes, std::align_val_t{64});
    blocks.emplace_back(data, bytes);
    if (session == nullptr) {
      std::memset(data, 0, bytes);
    } else {
      std::vector<std::byte> zeros(bytes);
      session->copy_in(data, zeros.data(), bytes, nullptr);
    }
    return data;
  }
  std::byte* workspace(size_t bytes) {
    if (bytes > workspace_bytes) {
      workspace_data = static_cast<std::byte*>(add(bytes));
      workspace_bytes = bytes;
    }
    return workspace_data;
  }

  DeviceSession* session;
  std::vector<std::pair<void*, size_t>> blocks;
  std::vector<void*> pointers;
  std::byte* workspace_data = nullptr;
  size_t workspace_bytes = 0;
};

KernelTimer::KernelTimer(const Executable& executable, const Launch& launch)
    : executable_(executable),
      kernel_(*launch.kernel),
      memory_(std::make_unique<Memory>(executable.engine->session(), launch)) {}
KernelTimer::~KernelTimer() = default;

double KernelTimer::run(const Code& code) {
  const Engine& engine = *executable_.engine;
  LaunchOptions options;
  options.threads = engine.options().threads;
  options.workspace = memory_->workspace(code.workspace_bytes());
  options.session = engine.session();
  auto launch = [&] { engine.backend().launch(code, memory_->pointers, {}, options); };
  if (options.session != nullptr) return options.session->elapsed_ns(nullptr, launch);
  auto start = Clock::now();
  launch();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

std::shared_ptr<const Code> KernelTimer::compiled(const Schedule& schedule) const {
  const Engine& engine = *executable_.engine;
  return executable_.engine->kernels().trial(lowered(executable_, kernel_, schedule),
                                             engine.target());
}

// The compiler of CPU code would disturb nothing either, but takes a hundredth of the time.
void KernelTimer::prepare(const std::vector<Schedule>& schedules) {
  if (!is_gpu(executable_.engine->target())) return;
  std::vector<std::pair<const Schedule*, Trial*>> fresh;
  for (const Schedule& schedule : schedules) {
    auto [at, added] = trials_.try_emplace(print(schedule));
    if (added) fresh.emplace_back(&schedule, &at->second);
  }
  side_by_side(fresh.size(), [&](size_t i) { fresh[i].second->code = compiled(*fresh[i].first); });
}

double KernelTimer::operator()(const Schedule& schedule) {
  Trial& trial = trials_[print(schedule)];
  if (!trial.code) trial.code = compiled(schedule);
  if (trial.code->spills()) return std::numeric_limits<double>::infinity();
  run(*trial.code);
  double ns = run(*trial.code);
  trial.best = std::min(trial.best, ns);
  return ns;
}

double KernelTimer::best(const Schedule& schedule) const {
  auto at = trials_.find(print(schedule));
  return at == trials_.end() ? std::numeric_limits<double>::infinity() : at->second.best;
}

}  // namespace tile
