// Races schedules on this machine. Candidates run on buffers of their own, so that a run of the
// executable meanwhile is not disturbed; winners are swapped in at the end.
#include "runtime/engine/tune.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/schedule/preparation.h"
#include "core/schedule/search.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/device_run.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/memory_plan.h"
#include "runtime/engine/side_by_side.h"

namespace tile {
namespace {

// A race may end early: codes are compiled in twos for each core, of which so many count at most,
// and no more than fit in this share of its time.
constexpr size_t kCompiledAhead = 8;
constexpr double kCompilingShare = 0.75;

constexpr size_t kNeighbours = 1;  // shapes whose best schedule takes part

// A race has time for more than one short list, as many of a long one share their code.
constexpr size_t kShortLists = 2;

// What is decided at last is decided by codes that will run, timed in turns: what runs now and so
// many others, so often, or twice where that takes long. A change must pay more than the noise.
constexpr size_t kContenders = 4;
constexpr int kDuelRounds = 20, kLeastRounds = 2;
constexpr double kDuelNanoseconds = 16e6;
constexpr double kPays = 0.98;

// How many to compile together now: what earlier ones took tells how many fit; 0: none.
size_t compiled_together(const KernelTimer::Spent& spent, double left_ns) {
  size_t cores = std::min(processors(), kCompiledAhead);
  if (spent.compiled == 0) return cores;
  double each = spent.compiling_ns / static_cast<double>(spent.compiled);
  double fit = std::max(0.0, left_ns / each);
  return static_cast<size_t>(std::min(fit, static_cast<double>(2 * cores)));
}

// The race's own choice, then who else was told to be among the last, or else the fastest of the
// field. What runs now is timed as it is.
std::vector<Schedule> contenders(const Schedule& found, const std::vector<Schedule>& told,
                                 const std::vector<Schedule>& field, const KernelTimer& timer,
                                 const Launch& now) {
  std::vector<Schedule> order{found};
  order.insert(order.end(), told.begin(), told.end());
  std::vector<std::pair<double, size_t>> timed;
  for (size_t i = 0; told.empty() && i < field.size(); ++i) {
    double ns = timer.best(field[i]);
    if (std::isfinite(ns)) timed.emplace_back(ns, i);
  }
  std::sort(timed.begin(), timed.end());
  for (auto [ns, at] : timed) order.push_back(field[at]);
  std::vector<Schedule> last;
  for (const Schedule& s : order) {
    bool runs = now.parameters.empty() && s == now.schedule;
    bool fresh = std::find(last.begin(), last.end(), s) == last.end();
    if (fresh && !runs && last.size() < kContenders) last.push_back(s);
  }
  return last;
}

// The fastest of these where it is faster than what runs now; nullopt: it is not.
std::optional<Schedule> duel(const std::vector<Schedule>& last, KernelTimer& timer) {
  if (last.empty()) return std::nullopt;
  double start = now_ns();
  double now = std::numeric_limits<double>::infinity();
  std::vector<double> least(last.size(), now);
  for (int round = 0; round < kDuelRounds; ++round) {
    if (round >= kLeastRounds && now_ns() - start > kDuelNanoseconds) break;
    now = std::min(now, timer.as_compiled());
    for (size_t i = 0; i < last.size(); ++i) least[i] = std::min(least[i], timer(last[i]));
  }
  auto best = std::min_element(least.begin(), least.end());
  if (*best > kPays * now) return std::nullopt;
  return last[static_cast<size_t>(best - least.begin())];
}

bool reads_fixed(const Kernel& kernel) {
  return std::any_of(kernel.reads.begin(), kernel.reads.end(),
                     [&](TensorId id) { return is_fixed(kernel.tensors, id); });
}

// Code with blocks of run-time sizes takes as long to compile as two to four codes of fixed ones,
// is slower, and the last few need their own as well: only a long race meets enough of its members.
bool shares_code(const Kernel& kernel, const Target& target, double budget_ms) {
  constexpr double kLongRace = 1000;  // milliseconds
  // Copies that are made before all runs are of one schedule's blocks.
  return !is_gpu(target) && !reads_fixed(kernel) && budget_ms >= kLongRace;
}

}  // namespace

std::optional<Schedule> race(const Executable& e, const Launch& launch, KernelTimer& timer,
                             double budget_ms, const RaceProgress& progress) {
  const Kernel& kernel = *launch.kernel;
  const Target& target = e.engine->target();
  if (budget_ms <= 0) return std::nullopt;
  SearchOptions options;
  options.budget_ns = budget_ms * 1e6;
  options.clock = now_ns;
  options.progress = progress;
  options.also = e.engine->kernels().nearest_schedules(kernel, target, kNeighbours);
  options.also.push_back(launch.schedule);  // what runs now, where that is not the model's pick
  if (!is_gpu(target)) options.bound_ns = bound_ns(kernel, target, e.engine->measured_rates());
  bool shares = shares_code(kernel, target, budget_ms);
  if (!is_gpu(target) && !reads_fixed(kernel)) options.candidates *= kShortLists;
  double start = now_ns();
  std::vector<Schedule> field = field_of(kernel, target, options);
  // A GPU's compiler takes so long that its time is not the race's.
  if (shares) timer.share(field);
  if (is_gpu(target)) timer.prepare(field);
  size_t tried = 0;
  auto measure = [&](const Schedule& schedule) {
    size_t at = tried++;
    if (!is_gpu(target) && !timer.is_prepared(schedule)) {
      double left = kCompilingShare * budget_ms * 1e6 - (now_ns() - start);
      size_t most = compiled_together(timer.spent(), left);
      // Those whose code is there are timed all the same.
      if (most == 0) return std::numeric_limits<double>::infinity();
      at < field.size() ? timer.prepare(std::span(field).subspan(at), most)
                        : timer.prepare(std::span(&schedule, 1));
    }
    return timer(schedule);
  };
  // What is decided among the last is decided between codes that will run.
  std::vector<Schedule> told;
  auto finalists = [&](std::span<const Schedule> last) {
    told.assign(last.begin(), last.end());
    timer.part(last);
    timer.prepare(last);
  };
  if (shares) options.finalists = finalists;
  if (!is_gpu(target)) options.budget_ns -= now_ns() - start;
  Schedule found = search_in(field, kernel, target, measure, options);
  if (is_gpu(target)) return found;
  std::vector<Schedule> last = contenders(found, told, field, timer, launch);
  timer.part();
  timer.prepare(last);
  return duel(last, timer);
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
