#include "runtime/engine/tuning/record_race.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>

#include "core/kernel/argument_layout.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "runtime/engine/launch/memory_plan.h"
#include "runtime/engine/records/processor_key.h"

namespace tile {
namespace {

constexpr size_t kOthers = 3;  // that a race leaves records of, beside its verdict
constexpr size_t kLeastSamples = 2;
// Rounds of a race between records: as many as this time allows, but three.
constexpr int kRounds = 20, kLeastRounds = 3;
constexpr double kRoundsNanoseconds = 0.5e9;
constexpr uint64_t kShareOfMemory = 4;  // a kernel on record may take this part of it

double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int64_t milliseconds_now() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// A record may say that its tensors are of any size.
void require_memory(const Kernel& kernel) {
  uint64_t limit = machine_memory() / kShareOfMemory;
  uint64_t bytes = 0;
  for (const BoundTensor& t : kernel.tensors) {
    bytes += static_cast<uint64_t>(
        checked_mul(element_count(t.shape), static_cast<int64_t>(byte_size(t.type))));
    if (bytes > limit) {
      fail(Stage::run, "memory", {}, "the kernel's tensors take more than a quarter of the memory");
    }
  }
}

// Whether the text is a schedule of the kernel; else why not.
std::string parsed(const std::string& text, const Kernel& kernel, const Target& target,
                   Schedule& schedule) {
  try {
    schedule = parse_schedule(text);
    return illegal(schedule, kernel, target);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& failure) {
    return failure.what();
  }
}

bool ends_the_call(const Failure& failure) {
  return failure.diagnostic().code == "cancelled" || failure.diagnostic().code == "memory";
}

// The claims about what was raced, and what the race says of each.
void judge(KernelVerdict& verdict, std::span<const TuningRecord> known,
           const std::map<std::string, TuningRecord>& measured, const std::string& host) {
  std::vector<Claim> claims;
  std::vector<TuningRecord> about;
  for (const TuningRecord& r : latest(known)) {
    auto at = measured.find(r.schedule);
    if (r.refuted || at == measured.end()) continue;
    claims.push_back({r.ns, at->second.ns, std::max(r.spread, at->second.spread)});
    about.push_back(r);
  }
  std::vector<bool> wrong = wrong_claims(claims);
  for (size_t i = 0; i < claims.size(); ++i) {
    if (!wrong[i]) continue;
    verdict.wrong.push_back(about[i]);
    if (about[i].host == host) continue;  // its new record stands in its place
    TuningRecord refutation = about[i];
    refutation.refuted = true;
    refutation.time = std::max(milliseconds_now(), about[i].time + 1);
    verdict.records.push_back(std::move(refutation));
  }
}

}  // namespace

TuningRecord record_of(const Kernel& kernel, const std::string& schedule, std::vector<double> times,
                       bool is_device) {
  TuningRecord record{record_key(kernel), schedule};
  record.name = kernel.name;
  record.samples = static_cast<int64_t>(times.size());
  record.ns = is_device ? median(times) : *std::min_element(times.begin(), times.end());
  for (double& t : times) t = std::abs(t - record.ns) / record.ns;
  record.spread = median(std::move(times));
  return record;
}

std::vector<TuningRecord> records_of_race(const Kernel& kernel, const std::string& verdict,
                                          const std::vector<double>& times,
                                          std::map<std::string, std::vector<double>> others,
                                          bool is_device) {
  std::vector<TuningRecord> losers;
  // All of them may spill registers.
  if (times.empty() || !std::isfinite(times.front())) return losers;
  TuningRecord first = record_of(kernel, verdict, times, is_device);
  others.erase(verdict);
  for (auto& [text, samples] : others) {
    std::erase_if(samples, [](double ns) { return !std::isfinite(ns); });
    if (samples.size() < kLeastSamples) continue;
    losers.push_back(record_of(kernel, text, std::move(samples), is_device));
    losers.back().ns = std::max(losers.back().ns, first.ns);
  }
  std::sort(losers.begin(), losers.end(), [](const auto& a, const auto& b) { return a.ns < b.ns; });
  if (losers.size() > kOthers) losers.resize(kOthers);
  // The verdict is the last, and so the latest.
  losers.push_back(std::move(first));
  return losers;
}

std::shared_ptr<Executable> executable_of(const std::shared_ptr<Engine>& engine, Kernel kernel) {
  require_memory(kernel);
  auto e = std::make_shared<Executable>();
  e->engine = engine;
  e->program.tensors = static_cast<const BoundTensors&>(kernel.tensors);
  e->own_code = true;
  Launch launch;
  launch.arguments = arguments_of(kernel);
  launch.schedule = analytic_schedule(kernel, engine->target());
  launch.nest = lowered(*e, kernel, launch.schedule);
  launch.kernel = std::move(kernel);
  e->launches.push_back(std::move(launch));
  return e;
}

std::vector<std::vector<double>> times_in_turns(KernelTimer& timer,
                                                std::span<const Schedule> schedules) {
  timer.prepare(schedules);
  std::vector<std::vector<double>> times(schedules.size());
  double start = now_ns();
  for (int round = 0; round < kRounds; ++round) {
    if (round >= kLeastRounds && now_ns() - start > kRoundsNanoseconds) break;
    for (size_t i = 0; i < schedules.size(); ++i) times[i].push_back(timer(schedules[i]));
  }
  return times;
}

namespace {

void race_schedules(const std::shared_ptr<Engine>& engine, KernelVerdict& verdict, Kernel kernel,
                    std::span<const TuningRecord> known) {
  std::shared_ptr<Executable> e = executable_of(engine, std::move(kernel));
  const Launch& launch = e->launches.front();
  const Kernel& own = *launch.kernel;
  bool is_device = engine->session() != nullptr;
  std::vector<Schedule> racing{launch.schedule};
  std::vector<size_t> places;
  for (auto& s : verdict.schedules) {
    Schedule schedule;
    s.unusable = parsed(s.claimed.record.schedule, own, engine->target(), schedule);
    auto at = std::find(racing.begin(), racing.end(), schedule);
    places.push_back(static_cast<size_t>(at - racing.begin()));
    if (s.unusable.empty() && at == racing.end()) racing.push_back(std::move(schedule));
  }
  KernelTimer timer(*e, launch);
  std::vector<std::vector<double>> times = times_in_turns(timer, racing);
  verdict.pick_ns = record_of(own, "", times.front(), is_device).ns;
  std::map<std::string, TuningRecord> measured;
  double best = verdict.pick_ns;
  verdict.best = print(racing.front());
  for (size_t i = 0; i < verdict.schedules.size(); ++i) {
    auto& s = verdict.schedules[i];
    if (!s.unusable.empty()) continue;
    const std::string& text = s.claimed.record.schedule;
    TuningRecord record = record_of(own, text, times[places[i]], is_device);
    record.name = s.claimed.record.name;
    if (!std::isfinite(record.ns)) {
      s.unusable = "its code spills registers";
      continue;
    }
    s.measured_ns = record.ns;
    if (record.ns < best) {
      best = record.ns;
      verdict.best = text;
    }
    measured[text] = record;
  }
  judge(verdict, known, measured, host_name());
  for (auto& [text, record] : measured) verdict.records.push_back(std::move(record));
}

}  // namespace

KernelVerdict raced_again(const std::shared_ptr<Engine>& engine, const std::string& kernel,
                          std::span<const RankedSchedule> schedules,
                          std::span<const TuningRecord> known) {
  KernelVerdict verdict;
  for (const RankedSchedule& s : schedules) verdict.schedules.push_back({s, "", 0});
  if (!schedules.empty()) verdict.name = schedules.front().record.name;
  try {
    Kernel parsed = kernel_of_key(kernel);
    verify(parsed);
    race_schedules(engine, verdict, std::move(parsed), known);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Failure& failure) {
    if (ends_the_call(failure)) throw;
    verdict.failed = failure.what();
  } catch (const std::exception& failure) {  // a text of nobody's
    verdict.failed = failure.what();
  }
  return verdict;
}

}  // namespace tile
