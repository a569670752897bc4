#include "runtime/engine/fleet/fleet_tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <new>
#include <thread>

#include "backends/fork.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/search/search.h"
#include "core/schedule/space/candidates.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/fleet/fleet_files.h"
#include "runtime/engine/fleet/work_share.h"
#include "runtime/engine/records/processor_key.h"
#include "runtime/engine/records/record_set.h"
#include "runtime/engine/tuning/record_race.h"
#include "runtime/engine/tuning/tune.h"

namespace tile {
namespace {

constexpr size_t kNeighbours = 1;  // shapes whose best schedule is a candidate
constexpr size_t kChunk = 4;       // candidates that a worker takes at once
// Of all candidates' times, from different machines maybe, those are raced again that lie within
// this of the best, and at least and at most so many.
constexpr double kNear = 1.1;
constexpr size_t kLeastLast = 4, kMostLast = 8;
constexpr auto kPause = std::chrono::milliseconds(50);
constexpr size_t kLargestPlan = size_t{1} << 28;  // bytes

struct Task {
  const Launch* launch = nullptr;
  std::string key;  // of the kernel on this processor: the beginning of its files' names
  FleetPlan plan;
  std::string chunk(size_t i) const { return key + "-" + std::to_string(i); }
};

class Worker {
 public:
  Worker(const Executable& e, const std::shared_ptr<const PrivateDirectory>& directory,
         const FleetOptions& options)
      : e_(e),
        options_(options),
        records_(e.engine->kernels().records(e.engine->target())),
        share_(directory, worker_name()),
        times_(share_.directory()) {
    for (const Launch& launch : e.launches) {
      if (launch.kernel) add_task(launch);
    }
    // Each begins elsewhere.
    size_t first = std::hash<std::string>()(share_.name()) % std::max<size_t>(1, tasks_.size());
    std::rotate(tasks_.begin(), tasks_.begin() + static_cast<std::ptrdiff_t>(first), tasks_.end());
  }

  FleetReport run() {
    while (!over()) {
      times_.refresh();
      WorkShare::State state = share_.state();
      if (time_some(state) || decide_one(state)) continue;
      if (is_complete(state)) {
        report_.complete = true;
        break;
      }
      tell(nullptr);
      checkpoint_at({});
      std::this_thread::sleep_for(kPause);
    }
    take_records();
    return report_;
  }

 private:
  bool over() const { return options_.seconds > 0 && (now_ns() - start_) / 1e9 > options_.seconds; }
  void add_task(const Launch& launch);
  FleetPlan made_plan(const Launch& launch, const std::string& kernel) const;
  bool time_some(const WorkShare::State& state);
  bool decide_one(const WorkShare::State& state);
  bool time_chunk(const Task& task, size_t chunk);
  void decide(const Task& task);
  bool is_timed(const Task& task, const WorkShare::State& state) const;
  bool is_complete(const WorkShare::State& state) const;
  size_t finals(const Task& task, const WorkShare::State& state) const;
  std::string final_of(const Task& task) const { return task.key + "-final-" + host_; }
  std::optional<File> turn() const;
  KernelTimer& timer_of(const Task& task);
  void write(const FleetTime& time);
  std::optional<Schedule> usable(const Task& task, size_t candidate) const;
  std::vector<Schedule> last_of(const Task& task);
  void take_records();
  void tell(const Task* task);

  const Executable& e_;
  const FleetOptions& options_;
  TuningRecords& records_;
  WorkShare share_;
  FleetTimes times_;
  std::string host_ = digest(host_name());
  std::vector<Task> tasks_;
  const Task* timed_ = nullptr;         // whose buffers there are
  std::unique_ptr<KernelTimer> timer_;  // these
  double start_ = now_ns();
  FleetReport report_;
};

FleetPlan Worker::made_plan(const Launch& launch, const std::string& kernel) const {
  const Target& target = e_.engine->target();
  SearchOptions search;
  search.candidates = options_.candidates;
  search.also = e_.engine->kernels().transferred_schedules(*launch.kernel, target, kNeighbours);
  search.also.push_back(launch.schedule);
  FleetPlan plan{records_.processor(), kernel, kChunk, {}};
  for (const Schedule& s : field_of(*launch.kernel, target, search)) {
    plan.schedules.push_back(print(s));
  }
  return plan;
}

// The plan is the first worker's; kernels that are equal are one task.
void Worker::add_task(const Launch& launch) {
  std::string kernel = record_key(*launch.kernel);
  std::string key = digest(records_.processor() + "\n" + kernel), why, file = key + ".plan";
  auto same = [&](const Task& t) { return t.key == key; };
  if (std::any_of(tasks_.begin(), tasks_.end(), same)) return;
  auto stored = [&]() -> std::optional<FleetPlan> {
    auto bytes = share_.directory().read(file, kLargestPlan, why);
    if (!bytes) return std::nullopt;
    auto plan = parse_plan({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
    bool fits = plan && plan->processor == records_.processor() && plan->kernel == kernel;
    return fits ? plan : std::nullopt;
  };
  std::optional<FleetPlan> plan = stored();
  if (!plan) {
    std::string text = to_text(made_plan(launch, kernel));
    bool made = share_.directory().create(file, text, why);
    plan = stored();
    // One that is there and is none was damaged.
    if (!plan && !made)
      made = share_.directory().replace(file, std::as_bytes(std::span(text)), why);
    if (!plan) plan = stored();
  }
  if (!plan) {
    fail(Stage::run, "file", {},
         "the shared directory " + share_.directory().path() + " cannot be used: " + why);
  }
  tasks_.push_back({&launch, key, std::move(*plan)});
}

// Workers of one machine disturb each other's times, not each other's compilers.
std::optional<File> Worker::turn() const {
  // GPUs are numbered among those that a process sees.
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string device = host_ + " " + std::to_string(e_.engine->ordinal()) + " " +
                       (visible == nullptr ? "" : visible);
  std::string name = "timing-" + digest(device) + ".lock", why;
  for (;;) {
    std::optional<File> lock = share_.directory().try_lock(name, why);
    if (lock || !why.empty()) return lock;
    checkpoint_at({});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

KernelTimer& Worker::timer_of(const Task& task) {
  if (timed_ != &task) {
    timer_.reset();
    timer_ = std::make_unique<KernelTimer>(e_, *task.launch);
    timed_ = &task;
  }
  return *timer_;
}

void Worker::tell(const Task* task) {
  if (!options_.progress) return;
  FleetProgress now;
  for (const Task& t : tasks_) {
    now.total += t.plan.schedules.size();
    now.timed += std::min(times_.of(t.key).size(), t.plan.schedules.size());
  }
  if (task != nullptr) {
    now.kernel = task->launch->kernel->name;
    for (const auto& [schedule, ns] : times_.of(task->key)) {
      if (std::isfinite(ns) && (now.best_ns == 0 || ns < now.best_ns)) now.best_ns = ns;
    }
  }
  options_.progress(now);
}

// A chunk that nobody has; false: there is none.
bool Worker::time_some(const WorkShare::State& state) {
  for (const Task& task : tasks_) {
    for (size_t i = 0; i < task.plan.chunks(); ++i) {
      std::string unit = task.chunk(i);
      if (!share_.claim(unit, state)) continue;
      bool whole = time_chunk(task, i);
      whole ? (void)share_.finish(unit) : share_.give_back(unit);
      return true;
    }
  }
  return false;
}

// Those of the chunk that have no time yet: whoever had it before may have been killed.
bool Worker::time_chunk(const Task& task, size_t chunk) {
  times_.refresh();
  KernelTimer& timer = timer_of(task);
  std::vector<Schedule> schedules;
  std::vector<std::string> names;
  size_t end = std::min(task.plan.schedules.size(), (chunk + 1) * task.plan.chunk);
  for (size_t i = chunk * task.plan.chunk; i < end; ++i) {
    std::string name = digest(task.plan.schedules[i]);
    if (times_.of(task.key).contains(name)) continue;
    if (std::optional<Schedule> schedule = usable(task, i)) {
      schedules.push_back(std::move(*schedule));
      names.push_back(std::move(name));
    } else {
      write({task.key, std::move(name)});
    }
  }
  timer.prepare(schedules);
  for (size_t i = 0; i < schedules.size(); ++i) {
    if (over()) return false;
    checkpoint_at({});
    std::optional<File> lock = turn();
    FleetTime time{task.key, names[i], timer(schedules[i])};
    lock.reset();
    write(time);
    tell(&task);
  }
  return true;
}

void Worker::write(const FleetTime& time) {
  std::string why;
  if (!share_.directory().append(times_file(share_.name()), to_line(time), why)) {
    fail(Stage::run, "file", {}, "the shared directory cannot be written: " + why);
  }
  times_.add(time);
  ++report_.timed;
}

// A plan may be that of another version.
std::optional<Schedule> Worker::usable(const Task& task, size_t candidate) const {
  try {
    Schedule schedule = parse_schedule(task.plan.schedules.at(candidate));
    bool legal = illegal(schedule, *task.launch->kernel, e_.engine->target()).empty();
    return legal ? std::optional(std::move(schedule)) : std::nullopt;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

bool Worker::is_timed(const Task& task, const WorkShare::State& state) const {
  for (size_t i = 0; i < task.plan.chunks(); ++i) {
    if (!state.done.contains(task.chunk(i))) return false;
  }
  return true;
}

size_t Worker::finals(const Task& task, const WorkShare::State& state) const {
  std::string start = task.key + "-final-";
  auto first = state.done.lower_bound(start);
  return static_cast<size_t>(std::count_if(
      first, state.done.end(), [&](const std::string& unit) { return unit.starts_with(start); }));
}

// A kernel is decided where its best were raced in turns, on this host or on enough others.
bool Worker::is_complete(const WorkShare::State& state) const {
  return std::all_of(tasks_.begin(), tasks_.end(), [&](const Task& task) {
    return state.done.contains(final_of(task)) || finals(task, state) >= options_.confirmations;
  });
}

bool Worker::decide_one(const WorkShare::State& state) {
  for (const Task& task : tasks_) {
    bool open = is_timed(task, state) && finals(task, state) < options_.confirmations;
    if (!open || !share_.claim(final_of(task), state)) continue;
    decide(task);
    share_.finish(final_of(task));
    return true;
  }
  return false;
}

// The model's pick, and the best by all times so far.
std::vector<Schedule> Worker::last_of(const Task& task) {
  std::vector<std::pair<double, size_t>> order;
  const std::map<std::string, double>& times = times_.of(task.key);
  for (size_t i = 0; i < task.plan.schedules.size(); ++i) {
    auto at = times.find(digest(task.plan.schedules[i]));
    if (at != times.end() && std::isfinite(at->second)) order.emplace_back(at->second, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<Schedule> last{analytic_schedule(*task.launch->kernel, e_.engine->target())};
  for (const auto& [ns, i] : order) {
    bool near = ns <= kNear * order.front().first || last.size() <= kLeastLast;
    if (!near || last.size() > kMostLast) break;
    std::optional<Schedule> schedule = usable(task, i);
    if (schedule && *schedule != last.front()) last.push_back(std::move(*schedule));
  }
  return last;
}

void Worker::decide(const Task& task) {
  times_.refresh();
  tell(&task);
  const Kernel& kernel = *task.launch->kernel;
  std::vector<Schedule> last = last_of(task);
  KernelTimer& timer = timer_of(task);
  timer.prepare(last);
  std::optional<File> lock = turn();
  std::vector<std::vector<double>> times = times_in_turns(timer, last);
  lock.reset();
  bool is_device = e_.engine->session() != nullptr;
  std::map<std::string, std::vector<double>> all;
  std::string best;
  double best_ns = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < last.size(); ++i) {
    double ns = record_of(kernel, "", times[i], is_device).ns;
    all[print(last[i])] = std::move(times[i]);
    if (!best.empty() && ns >= best_ns) continue;
    best = print(last[i]);
    best_ns = ns;
  }
  if (!std::isfinite(best_ns)) return;
  std::vector<double> of_best = all[best];
  std::vector<TuningRecord> found =
      records_of_race(kernel, best, of_best, std::move(all), is_device);
  records_.add(found);
  // As they are on record, with host and time.
  std::string lines, why;
  for (const TuningRecord& r : records_.all()) {
    bool own = r.kernel == task.plan.kernel && r.host == host_name() && !r.refuted;
    if (own) lines += to_line(r, records_.processor()) + "\n";
  }
  share_.directory().append(fleet_records_file(share_.name()), lines, why);
  ++report_.decided;
}

// What all workers found for kernels of this program.
void Worker::take_records() {
  RecordSet found, known;
  for (const TuningRecord& r : records_.all()) known.add(records_.processor(), r);
  found.add(fleet_records(share_.directory()));
  std::vector<TuningRecord> fresh;
  for (const auto& [kernel, list] : found.of(records_.processor())) {
    auto is_ours = [&](const Task& t) { return t.plan.kernel == kernel; };
    if (std::none_of(tasks_.begin(), tasks_.end(), is_ours)) continue;
    for (const TuningRecord& r : list) {
      if (!known.has(records_.processor(), r)) fresh.push_back(r);
    }
  }
  records_.add(fresh);
}

}  // namespace

std::shared_ptr<const Executable> tuned_together(
    const Executable& executable, const std::shared_ptr<const PrivateDirectory>& directory,
    const FleetOptions& options, FleetReport& report) {
  const Engine& engine = *executable.engine;
  if (engine.options().deterministic) {
    fail(Stage::run, "argument", {}, "a deterministic engine tunes nothing",
         "tune with an engine that is not deterministic");
  }
  if (engine.is_reference()) {
    fail(Stage::run, "argument", {}, "the reference interpreter has nothing to tune");
  }
  LockingCall call;
  std::shared_ptr<const Executable> e =
      executable.restored ? compile_stages(executable) : executable.shared_from_this();
  report = Worker(*e, directory, options).run();
  return compile_stages(executable);
}

}  // namespace tile
