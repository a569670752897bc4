// Tuning: a race for each kernel, the winners swapped in at the end.
#include "runtime/engine/tune.h"

#include <algorithm>

#include "core/schedule/preparation.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/device_run.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/memory_plan.h"

namespace tile {

void tune(Executable& e, double budget_ms,
          const std::function<void(const std::string&, size_t, size_t, double)>& progress) {
  if (e.engine->is_reference()) return;
  if (e.restored) e = *compile_stages(e);
  std::vector<Launch> launches = e.launches;
  auto kernels = static_cast<double>(std::count_if(
      launches.begin(), launches.end(), [](const Launch& l) { return l.kernel.has_value(); }));
  double start = now_ns();
  for (Launch& launch : launches) {
    if (!launch.kernel) continue;
    // What the races before left is shared by the rest.
    double left_ms = std::max(0.0, budget_ms - (now_ns() - start) / 1e6);
    const Kernel& kernel = *launch.kernel;
    KernelTimer timer(e, launch);
    RaceProgress report;
    if (progress) {
      report = [&](size_t tried, size_t total, double best) {
        progress(kernel.name, tried, total, best);
      };
    }
    std::optional<Schedule> found = race(e, launch, timer, left_ms / kernels, report);
    kernels -= 1;
    if (!found && !launch.parameters.empty()) continue;  // the code of a class of sizes
    double ns = found ? timer.best(*found) : timer.as_compiled();
    if (found) launch.schedule = std::move(*found);
    e.engine->kernels().remember_schedule(kernel, e.engine->target(), print(launch.schedule), ns);
    if (!found) continue;
    launch.nest = lowered(e, kernel, launch.schedule);
    launch.prepared = copies_for(e, kernel, launch.schedule);
    launch.parameters.clear();
    std::shared_ptr<const Code> trial = timer.code(launch.schedule);
    if (trial) e.engine->kernels().keep(launch.nest, e.engine->target(), trial);
    make_code(e, launch);
  }
  Executable tuned = e;
  tuned.launches = std::move(launches);
  tuned.copies.clear();
  tuned.densified.clear();
  plan_memory(tuned, e.engine->options().memory_limit);
  prepare_copies(tuned);
  tuned.call = call_plan(tuned);
  if (e.engine->session() != nullptr) prepare_device(tuned);
  e = std::move(tuned);
}

}  // namespace tile
