// Races schedules on this machine. Candidates run on buffers of their own, so that a run of the
// executable meanwhile is not disturbed; winners are swapped in at the end.
#include "runtime/engine/device_run.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/kernel_timer.h"
#include "runtime/engine/memory_plan.h"

namespace tile {

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
    SearchOptions options;
    options.budget_ns = budget_ms * 1e6 / static_cast<double>(kernels);
    if (progress) {
      options.progress = [&](size_t tried, size_t total, double best) {
        progress(kernel.name, tried, total, best);
      };
    }
    timer.prepare(candidates(kernel, e.engine->target(), options.candidates));
    auto measure = [&](const Schedule& schedule) { return timer(schedule); };
    launch.schedule = search(kernel, e.engine->target(), measure, options);
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
