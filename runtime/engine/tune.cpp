// Races schedules on this machine. Candidates run on buffers of their own, so that a run of the
// executable meanwhile is not disturbed; winners are swapped in at the end.
#include "runtime/engine/tune.h"

#include <algorithm>

#include "core/schedule/preparation.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/device_run.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/memory_plan.h"
#include "runtime/engine/side_by_side.h"

namespace tile {
namespace {

// A race may end early: so many at most are compiled together, and no more than fit in this share
// of its time.
constexpr size_t kCompiledAhead = 8;
constexpr double kCompilingShare = 0.7;

constexpr size_t kNeighbours = 1;  // shapes whose best schedule takes part

// A race has time for more than one short list, as many of them share their code.
constexpr size_t kShortLists = 2;

// How many to compile together now: what earlier ones took tells how many fit.
size_t compiled_together(const KernelTimer::Spent& spent, double left_ns) {
  size_t cores = std::min(processors(), kCompiledAhead);
  if (spent.compiled == 0) return cores;
  double each = spent.compiling_ns / static_cast<double>(spent.compiled);
  double most = kCompiledAhead;
  return static_cast<size_t>(std::clamp(left_ns / each, static_cast<double>(cores), most));
}

bool reads_fixed(const Kernel& kernel) {
  return std::any_of(kernel.reads.begin(), kernel.reads.end(),
                     [&](TensorId id) { return is_fixed(kernel.tensors, id); });
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
  options.also.push_back(launch.schedule);  // what runs now, where that is not the model's pick
  if (!is_gpu(target)) options.bound_ns = bound_ns(kernel, target, e.engine->measured_rates());
  // Copies that are made before all runs are of one schedule's blocks.
  bool shares = !is_gpu(target) && !reads_fixed(kernel);
  if (shares) options.candidates *= kShortLists;
  std::vector<Schedule> field = field_of(kernel, target, options);
  // A GPU's compiler takes so long that its time is not the race's.
  shares ? timer.share(field) : timer.prepare(field);
  double start = now_ns();
  size_t tried = 0;
  auto measure = [&](const Schedule& schedule) {
    if (shares && tried < field.size() && !timer.is_prepared(schedule)) {
      double left = kCompilingShare * options.budget_ns - (now_ns() - start);
      timer.prepare(std::span(field).subspan(tried), compiled_together(timer.spent(), left));
    }
    ++tried;
    return timer(schedule);
  };
  // What is decided at last is between codes that will run.
  auto finalists = [&](std::span<const Schedule> last) {
    timer.part(last);
    timer.prepare(last);
  };
  if (shares) options.finalists = finalists;
  Schedule found = search(kernel, target, measure, options);
  timer.part();
  if (!timer.code(found)) timer(found);  // the time was up before it had code of its own
  return found;
}

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
    launch.schedule = race(e, launch, timer, left_ms / kernels, report);
    kernels -= 1;
    e.engine->kernels().remember_schedule(kernel, e.engine->target(), print(launch.schedule),
                                          timer.best(launch.schedule));
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
