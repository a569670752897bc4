// Races schedules on this machine. Candidates run on buffers of their own, so that a run of the
// executable meanwhile is not disturbed; winners are swapped in at the end.
#include "runtime/engine/tune.h"

#include <algorithm>
#include <chrono>

#include "runtime/engine/device_run.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/memory_plan.h"

namespace tile {
namespace {

// A race may end early: so many are compiled beyond the one that is next.
constexpr size_t kCompiledAhead = 8;

constexpr size_t kNeighbours = 1;  // shapes whose best schedule takes part

double now_ns() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::nano>(now).count();
}

}  // namespace

Schedule race(const Executable& e, const Launch& launch, KernelTimer& timer, double budget_ms,
              const RaceProgress& progress) {
  const Kernel& kernel = *launch.kernel;
  const Target& target = e.engine->target();
  SearchOptions options;
  options.budget_ns = budget_ms * 1e6;
  options.clock = now_ns;
  options.progress = progress;
  options.also = e.engine->kernels().nearest_schedules(kernel, target, kNeighbours);
  if (!is_gpu(target)) options.bound_ns = bound_ns(kernel, target, e.engine->measured_rates());
  std::vector<Schedule> field = field_of(kernel, target, options);
  // A GPU's compiler takes so long that its time is not the race's.
  if (is_gpu(target)) timer.prepare(field);
  size_t tried = 0;
  auto measure = [&](const Schedule& schedule) {
    bool due = !is_gpu(target) && tried < field.size() && tried % kCompiledAhead == 0;
    if (due) {
      size_t count = std::min(kCompiledAhead, field.size() - tried);
      timer.prepare(std::span(field).subspan(tried, count));
    }
    ++tried;
    return timer(schedule);
  };
  return search(kernel, target, measure, options);
}

void tune(Executable& e, double budget_ms,
          const std::function<void(const std::string&, size_t, size_t, double)>& progress) {
  if (e.engine->is_reference()) return;
  if (e.restored) e = *compile_stages(e);
  std::vector<Launch> launches = e.launches;
  size_t kernels = 0;
  for (const Launch& launch : launches) kernels += launch.kernel ? 1 : 0;
  for (Launch& launch : launches) {
    if (!launch.kernel) continue;
    const Kernel& kernel = *launch.kernel;
    KernelTimer timer(e, launch);
    RaceProgress report;
    if (progress) {
      report = [&](size_t tried, size_t total, double best) {
        progress(kernel.name, tried, total, best);
      };
    }
    launch.schedule = race(e, launch, timer, budget_ms / static_cast<double>(kernels), report);
    e.engine->kernels().remember_schedule(kernel, e.engine->target(), print(launch.schedule),
                                          timer.best(launch.schedule));
    launch.nest = lowered(e, kernel, launch.schedule);
    launch.parameters.clear();
    launch.code = e.engine->kernels().get(launch.nest, e.engine->target());
  }
  e.launches = std::move(launches);
  e.copies.clear();
  e.densified.clear();
  plan_memory(e, e.engine->options().memory_limit);
  if (e.engine->session() != nullptr) prepare_device(e);
}

}  // namespace tile
