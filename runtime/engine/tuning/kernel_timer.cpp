#include "runtime/engine/tuning/kernel_timer.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <set>

#include "core/nest/launch_extent.h"
#include "core/support/control.h"
#include "runtime/engine/concurrency/parallel_for.h"
#include "runtime/engine/engine.h"

namespace tile {

double now_ns() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::nano>(now).count();
}

namespace {

constexpr size_t kAlignment = 64;             // of first elements, as of memory
constexpr size_t kRuns = 5;                   // of one measurement
constexpr double kEnoughNanoseconds = 200e3;  // on a CPU: longer runs are repeated less
// …and shorter ones more, until workers that slept while code was compiled have come and settled.
constexpr double kSettlingNanoseconds = 100e3;
// Times the best: a run that takes so long, and is long, is not repeated. Shorter ones are: the
// first one brings data and code back that a compiler has driven out of the caches.
constexpr double kHopeless = 2, kLongNanoseconds = 2e6;
// Arguments in turns on a device: so many sets at most, and together so many times the cache.
constexpr size_t kMostSets = 8;
constexpr size_t kCachesFilled = 2;

// The bytes that a launch's argument spans, whatever its strides: from its first element on, and
// before it where strides are negative.
struct Reach {
  size_t before = 0, bytes = 0;  // `bytes`: of all
};
Reach reach(const Launch& launch, const nest::Buffer& b) {
  int64_t behind = 1, before = 0;
  for (size_t d = 0; d < b.shape.size(); ++d) {
    int64_t extent =
        d == 0 && b.extent ? nest::first_extent(*launch.nest, b, launch.parameters) : b.shape[d];
    int64_t steps = std::max<int64_t>(0, extent - 1);
    (b.strides[d] < 0 ? before : behind) += steps * std::abs(b.strides[d]);
  }
  // The first element is what must be aligned.
  size_t size = byte_size(b.type), lead = static_cast<size_t>(before) * size;
  lead = (lead + kAlignment - 1) / kAlignment * kAlignment;
  return {lead, lead + static_cast<size_t>(behind) * size};
}

}  // namespace

// Zeros for every argument and a workspace, where the backend's launches want them. A device, whose
// runs are timed one at a time, has several sets of arguments that launches take in turns, so that
// none finds its data in the cache that the one before filled.
struct KernelTimer::Memory {
  explicit Memory(const Engine& engine) : session(engine.session()) {}
  // What there is so far is given back where memory runs out.
  Memory(const Engine& engine, const Launch& launch) : Memory(engine) {
    std::vector<Reach> sizes;
    size_t total = 0;
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      sizes.push_back(reach(launch, launch.nest->buffers[i]));
      total += sizes.back().bytes;
    }
    add_set(sizes);
    if (session == nullptr) return;
    size_t wanted = kCachesFilled * static_cast<size_t>(engine.target().l2_bytes);
    try {
      while (sets.size() < kMostSets && sets.size() * total < wanted) add_set(sizes);
    } catch (const Failure&) {  // memory is short: fewer sets do
    }
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

  void add_set(const std::vector<Reach>& sizes) {
    std::vector<void*> pointers;
    for (const Reach& r : sizes)
      pointers.push_back(static_cast<std::byte*>(add(r.bytes)) + r.before);
    sets.push_back(std::move(pointers));
  }
  void* add(size_t bytes) {
    bytes = std::max<size_t>(bytes, 64);
    blocks.reserve(blocks.size() + 1);
    void* data = session != nullptr ? session->allocate(bytes, nullptr)
                                    : ::operator new(bytes, std::align_val_t{64});
    blocks.emplace_back(data, bytes);
    // The first touch of new pages takes about a millisecond for each 4 MiB, as copies to a GPU do.
    constexpr size_t kAtOnce = 4 << 20;
    std::vector<std::byte> zeros(session == nullptr ? 0 : std::min(bytes, kAtOnce));
    for (size_t done = 0; done < bytes; done += kAtOnce) {
      checkpoint_at({});
      std::byte* part = static_cast<std::byte*>(data) + done;
      size_t count = std::min(kAtOnce, bytes - done);
      if (session == nullptr) {
        std::memset(part, 0, count);
      } else {
        session->copy_in(part, zeros.data(), count, nullptr);
      }
    }
    return data;
  }
  std::byte* workspace(size_t bytes) { return grown(own, bytes); }
  std::byte* copy(size_t number, size_t bytes) {
    copies.resize(std::max(copies.size(), number + 1));
    return grown(copies[number], bytes);
  }

  DeviceSession* session;
  std::vector<std::pair<void*, size_t>> blocks;
  std::vector<std::vector<void*>> sets;
  size_t next = 0;  // of the sets
  struct Block {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };
  std::byte* grown(Block& block, size_t bytes) {
    if (bytes > block.bytes) block = {static_cast<std::byte*>(add(bytes)), bytes};
    return block.data;
  }
  Block own;                  // the workspace
  std::vector<Block> copies;  // packed ones, one for each further argument
};

KernelTimer::KernelTimer(const Executable& executable, const Launch& launch)
    : executable_(executable),
      launch_(launch),
      kernel_(*launch.kernel),
      memory_(std::make_unique<Memory>(*executable.engine, launch)) {}
KernelTimer::~KernelTimer() = default;

double KernelTimer::run(const Code& code, const Given& given) {
  const Engine& engine = *executable_.engine;
  LaunchOptions options;
  options.threads = engine.options().threads;
  options.workspace = memory_->workspace(code.workspace_bytes());
  options.session = engine.session();
  options.control = current_control();
  options.pool = engine.pool();
  checkpoint_at({});
  std::vector<void*> pointers = memory_->sets[memory_->next];
  for (size_t i = 0; i < given.copies.size(); ++i) {
    pointers.push_back(memory_->copy(i, given.copies[i]));
  }
  memory_->next = (memory_->next + 1) % memory_->sets.size();
  auto launch = [&] { engine.backend().launch(code, pointers, given.parameters, options); };
  if (options.session != nullptr) return options.session->elapsed_ns(nullptr, launch);
  double start = now_ns();
  launch();
  return now_ns() - start;
}

void KernelTimer::compile(Trial& trial, const Schedule& schedule) const {
  const Engine& engine = *executable_.engine;
  trial.copies.clear();
  for (const PrepackedCopy& p : copies_for(executable_, kernel_, schedule)) {
    trial.copies.push_back(p.bytes);
  }
  trial.code =
      executable_.engine->kernels().trial(lowered(executable_, kernel_, schedule), engine.target());
}
std::shared_ptr<const Code> KernelTimer::compiled(const SharedForm& form) const {
  const Engine& engine = *executable_.engine;
  return executable_.engine->kernels().trial(lowered(executable_, kernel_, form), engine.target());
}

void KernelTimer::share(std::span<const Schedule> schedules) {
  for (SharedKernel& k : shared_kernels(schedules, kernel_, executable_.engine->target())) {
    if (k.members.size() < 2) continue;
    size_t number = shared_.size();
    for (size_t m = 0; m < k.members.size(); ++m) {
      Trial& trial = trials_[print(schedules[k.members[m]])];
      if (trial.code || trial.shared) continue;
      trial.shared = number;
      trial.parameters = std::move(k.arguments[m]);
    }
    shared_.push_back({std::move(k.form), nullptr});
  }
}

void KernelTimer::part(std::span<const Schedule> schedules) {
  for (const Schedule& schedule : schedules) {
    auto at = trials_.find(print(schedule));
    if (at != trials_.end() && at->second.shared) trials_.erase(at);
  }
}

void KernelTimer::part() {
  std::erase_if(trials_, [](const auto& trial) { return trial.second.shared.has_value(); });
  shared_.clear();
}

bool KernelTimer::is_prepacked(const Schedule& schedule) {
  auto at = trials_.find(print(schedule));
  return at != trials_.end() && code_of(at->second) != nullptr;
}

void KernelTimer::prepare(std::span<const Schedule> schedules, size_t most) {
  std::vector<std::function<void()>> fresh;
  std::set<std::shared_ptr<const Code>*> listed;
  for (const Schedule& schedule : schedules) {
    if (fresh.size() == most) break;
    Trial& trial = trials_[print(schedule)];
    std::shared_ptr<const Code>& code = code_of(trial);
    if (code || !listed.insert(&code).second) continue;
    fresh.emplace_back([this, &code, &trial, &schedule] {
      if (!trial.shared) return compile(trial, schedule);
      code = compiled(shared_[*trial.shared].form);
    });
  }
  double start = now_ns();
  parallel_for(fresh.size(), [&](size_t i) { fresh[i](); }, executable_.engine->pool());
  spent_.compiled += fresh.size();
  spent_.compiling_ns += now_ns() - start;
}

double KernelTimer::operator()(const Schedule& schedule) {
  Trial& trial = trials_[print(schedule)];
  if (!code_of(trial)) prepare(std::span(&schedule, 1));
  const Code& code = *code_of(trial);
  if (code.spills()) return std::numeric_limits<double>::infinity();
  double start = now_ns();
  double ns = settled(code, {trial.parameters, trial.copies});
  spent_.running_ns += now_ns() - start;
  trial.best = std::min(trial.best, ns);
  trial.times.push_back(ns);
  best_ = std::min(best_, ns);
  return ns;
}

double KernelTimer::as_compiled() {
  std::vector<size_t> copies;
  for (const PrepackedCopy& p : launch_.prepared) copies.push_back(p.bytes);
  as_compiled_.push_back(settled(*launch_.code, {launch_.parameters, copies}));
  return as_compiled_.back();
}

// A device's events time what runs alone: the median counts. A CPU's runs are disturbed by others:
// the least does.
double KernelTimer::settled(const Code& code, const Given& given) {
  bool device = executable_.engine->session() != nullptr;
  double warming = run(code, given);
  if (!device && warming > std::max(kLongNanoseconds, kHopeless * best_)) return warming;
  std::vector<double> times;
  double spent = 0;
  auto more = [&] {
    if (device) return times.size() < kRuns;
    return spent < (times.size() < kRuns ? kEnoughNanoseconds : kSettlingNanoseconds);
  };
  while (more()) {
    times.push_back(run(code, given));
    spent += times.back();
  }
  std::sort(times.begin(), times.end());
  return device ? times[times.size() / 2] : times[0];
}

std::shared_ptr<const Code> KernelTimer::code(const Schedule& schedule) const {
  auto at = trials_.find(print(schedule));
  return at == trials_.end() ? nullptr : at->second.code;
}

double KernelTimer::best(const Schedule& schedule) const {
  auto at = trials_.find(print(schedule));
  return at == trials_.end() ? std::numeric_limits<double>::infinity() : at->second.best;
}

std::vector<double> KernelTimer::times(const Schedule& schedule) const {
  auto at = trials_.find(print(schedule));
  return at == trials_.end() ? std::vector<double>{} : at->second.times;
}

std::map<std::string, std::vector<double>> KernelTimer::times() const {
  std::map<std::string, std::vector<double>> all;
  for (const auto& [text, trial] : trials_) {
    if (trial.shared < 0 && !trial.times.empty()) all[text] = trial.times;
  }
  return all;
}

}  // namespace tile
