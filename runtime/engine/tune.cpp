// Races schedules on this machine. Candidates run on buffers of their own, so that a run of the
// executable meanwhile is not disturbed; winners are swapped in at the end.
#include <chrono>
#include <limits>
#include <map>
#include <new>

#include "runtime/engine/engine.h"
#include "runtime/engine/memory_plan.h"

namespace tile {
namespace {

using Clock = std::chrono::steady_clock;

// Dense memory for every argument of one kernel.
class Buffers {
 public:
  explicit Buffers(const nest::Nest& nest) {
    for (size_t i = 0; i < nest.argument_count(); ++i) {
      const nest::Buffer& b = nest.buffers[i];
      int64_t reach = 1;
      for (size_t d = 0; d < b.shape.size(); ++d) {
        reach += std::max<int64_t>(0, b.shape[d] - 1) * std::max<int64_t>(0, b.strides[d]);
      }
      memory_.emplace_back(static_cast<size_t>(reach) * byte_size(b.type) + 64);
      auto address = reinterpret_cast<uintptr_t>(memory_.back().data());
      pointers_.push_back(memory_.back().data() + (64 - address % 64) % 64);
    }
  }
  std::span<void* const> pointers() const { return pointers_; }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<void*> pointers_;
};

double time_launch(Engine& engine, const Code& code, const Buffers& buffers) {
  std::vector<std::byte> workspace(code.workspace_bytes() + 64);
  auto address = reinterpret_cast<uintptr_t>(workspace.data());
  LaunchOptions options;
  options.threads = engine.options().threads;
  options.workspace = workspace.data() + (64 - address % 64) % 64;
  auto start = Clock::now();
  engine.backend().launch(code, buffers.pointers(), {}, options);
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

}  // namespace

void tune(Executable& e, double budget_ms,
          const std::function<void(const std::string&, size_t, size_t, double)>& progress) {
  if (e.engine->is_reference()) return;
  std::vector<Launch> launches = e.launches;
  size_t kernels = 0;
  for (const Launch& launch : launches) kernels += launch.kernel ? 1 : 0;
  for (Launch& launch : launches) {
    if (!launch.kernel) continue;
    const Kernel& kernel = *launch.kernel;
    Buffers buffers(launch.nest);
    // A candidate is measured in several rungs and compiled once; only the winner is kept beyond.
    struct Trial {
      std::shared_ptr<const Code> code;
      double best = std::numeric_limits<double>::infinity();
    };
    std::map<std::string, Trial> trials;
    auto measure = [&](const Schedule& schedule) {
      Trial& trial = trials[print(schedule)];
      if (!trial.code) {
        trial.code = e.engine->kernels().trial(lowered(e, kernel, schedule), e.engine->target());
      }
      time_launch(*e.engine, *trial.code, buffers);  // warms caches and pages
      double ns = time_launch(*e.engine, *trial.code, buffers);
      trial.best = std::min(trial.best, ns);
      return ns;
    };
    SearchOptions options;
    options.budget_ns = budget_ms * 1e6 / static_cast<double>(kernels);
    if (progress) {
      options.progress = [&](size_t tried, size_t total, double best) {
        progress(kernel.name, tried, total, best);
      };
    }
    launch.schedule = search(kernel, e.engine->target(), measure, options);
    e.engine->kernels().remember_schedule(kernel, e.engine->target(), print(launch.schedule),
                                          trials[print(launch.schedule)].best);
    launch.nest = lowered(e, kernel, launch.schedule);
    launch.code = e.engine->kernels().get(launch.nest, e.engine->target());
  }
  e.launches = std::move(launches);
  e.copies.clear();
  e.densified.clear();
  plan_memory(e, e.engine->options().memory_limit);
}

}  // namespace tile
