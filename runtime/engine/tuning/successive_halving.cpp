// The race of one kernel's schedules. Candidates run on buffers of their own, so that a run of the
// executable meanwhile is not disturbed.
#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "core/kernel/forms/prepacking.h"
#include "core/schedule/cost/time_bound.h"
#include "core/schedule/search/search.h"
#include "runtime/engine/concurrency/parallel_for.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/records/ranking.h"
#include "runtime/engine/tuning/tune.h"

namespace tile {
namespace {

// A race may end early: codes are compiled in twos for each core, of which so many count at most,
// and no more than fit in this share of its time.
constexpr size_t kCompiledAhead = 8;
constexpr double kCompilingShare = 0.75;

constexpr size_t kNeighbours = 1;  // shapes whose best schedule takes part
constexpr size_t kOnRecord = 4;    // schedules on record for the kernel itself that do

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

// What other races and machines found best for the kernel.
std::vector<Schedule> on_record(Engine& engine, const Kernel& kernel) {
  std::vector<Schedule> list;
  for (const RankedSchedule& known : engine.kernels().tuned_schedules(kernel, engine.target())) {
    if (list.size() == kOnRecord) break;
    try {
      list.push_back(parse_schedule(known.record.schedule));
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {  // the text of another version, or of nobody's
      checkpoint();
    }
  }
  return list;
}

bool reads_fixed(const Kernel& kernel) {
  return std::any_of(kernel.reads.begin(), kernel.reads.end(),
                     [&](TensorId id) { return is_fixed(kernel.tensors, id); });
}

// Code with blocks of run-time sizes takes as long to compile as two to four codes of fixed ones,
// is slower, and the last few need their own as well: only a long race meets enough of its members.
bool shares_code(const Kernel& kernel, double budget_ns) {
  constexpr double kLongRace = 1e9;  // nanoseconds
  // Copies that are made before all runs are of one schedule's blocks.
  return !reads_fixed(kernel) && budget_ns >= kLongRace;
}

// A race on a CPU, where compiling counts: codes are made as the race comes to them.
class CpuRace {
 public:
  CpuRace(const Executable& e, const Launch& launch, KernelTimer& timer, double budget_ms)
      : kernel_(*launch.kernel),
        target_(e.engine->target()),
        launch_(launch),
        timer_(timer),
        budget_ns_(budget_ms * 1e6) {}

  std::optional<Schedule> run(SearchOptions options) {
    if (!reads_fixed(kernel_)) options.candidates *= kShortLists;
    field_ = field_of(kernel_, target_, options);
    if (shares_code(kernel_, budget_ns_)) {
      timer_.share(field_);
      options.finalists = [this](std::span<const Schedule> last) { part(last); };
    }
    options.budget_ns = budget_ns_ - (now_ns() - start_);
    auto measure = [this](const Schedule& s) { return measured(s); };
    Schedule found = search_in(field_, kernel_, target_, measure, options);
    std::vector<Schedule> last = contenders(found, told_, field_, timer_, launch_);
    timer_.part();
    timer_.prepare(last);
    return duel(last, timer_);
  }

 private:
  double measured(const Schedule& schedule) {
    size_t at = tried_++;
    if (timer_.is_prepacked(schedule)) return timer_(schedule);
    double left = kCompilingShare * budget_ns_ - (now_ns() - start_);
    size_t most = compiled_together(timer_.spent(), left);
    // Those whose code is there are timed all the same.
    if (most == 0) return std::numeric_limits<double>::infinity();
    if (at < field_.size()) {
      timer_.prepare(std::span(field_).subspan(at), most);
    } else {
      timer_.prepare(std::span(&schedule, 1));
    }
    return timer_(schedule);
  }
  // What is decided among the last is decided between codes that will run.
  void part(std::span<const Schedule> last) {
    told_.assign(last.begin(), last.end());
    timer_.part(last);
    timer_.prepare(last);
  }

  const Kernel& kernel_;
  const Target& target_;
  const Launch& launch_;
  KernelTimer& timer_;
  double budget_ns_, start_ = now_ns();
  std::vector<Schedule> field_, told_;
  size_t tried_ = 0;
};

}  // namespace

std::optional<Schedule> race(const Executable& e, const Launch& launch, KernelTimer& timer,
                             double budget_ms, const RaceProgress& progress) {
  if (budget_ms <= 0) return std::nullopt;
  const Kernel& kernel = *launch.kernel;
  const Target& target = e.engine->target();
  SearchOptions options;
  options.budget_ns = budget_ms * 1e6;
  options.clock = now_ns;
  options.progress = progress;
  options.also = e.engine->kernels().transferred_schedules(kernel, target, kNeighbours);
  options.also.push_back(launch.schedule);  // what runs now, where that is not the model's pick
  for (Schedule& known : on_record(*e.engine, kernel)) options.also.push_back(std::move(known));
  if (!is_gpu(target)) {
    options.bound_ns = bound_ns(kernel, target, e.engine->measured_rates());
    return CpuRace(e, launch, timer, budget_ms).run(std::move(options));
  }
  // A GPU's compiler takes so long that its time is not the race's.
  std::vector<Schedule> field = field_of(kernel, target, options);
  timer.prepare(field);
  auto measure = [&](const Schedule& s) { return timer(s); };
  return search_in(field, kernel, target, measure, options);
}

}  // namespace tile
