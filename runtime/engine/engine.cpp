#include "runtime/engine/engine.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/launch/worker_team.h"
#include "backends/cpu/probe/measure_rates.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/fork.h"
#include "backends/trace.h"
#include "runtime/engine/cache/disk_cache.h"
#include "runtime/engine/inspect/pass_list.h"
#include "runtime/engine/tuning/machine_rates.h"

namespace tile {
namespace {

std::string environment(const char* name, const std::string& given) {
  if (!given.empty()) return given;
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

[[noreturn]] void bad_option(const std::string& what, const std::string& value,
                             const std::string& expected) {
  fail(Stage::run, "argument", {}, "unknown " + what + " \"" + value + "\"",
       "expected " + expected);
}

constexpr int kMostThreads = cpu::WorkerTeam::kMost;

int thread_count(const EngineOptions& options) {
  std::string most = std::to_string(kMostThreads);
  if (options.threads < 0 || options.threads > kMostThreads) {
    bad_option("number of threads", std::to_string(options.threads),
               "1 to " + most + ", or 0 for all that there are");
  }
  std::string text = options.threads > 0 ? "" : environment("TILE_THREADS", "");
  if (text.empty()) return options.threads;
  int threads = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || threads < 1 || threads > kMostThreads) {
    bad_option("TILE_THREADS", text, "a whole number from 1 to " + most);
  }
  return threads;
}

CacheMode cache_mode(const EngineOptions& options) {
  std::string text = environment("TILE_CACHE", options.cache_mode);
  if (text.empty()) return CacheMode::read_write;
  std::optional<CacheMode> mode = parse_cache_mode(text);
  if (!mode) bad_option("cache mode", text, "rw, ro, off or verify");
  return *mode;
}

size_t cache_limit(const EngineOptions& options) {
  if (options.cache_limit != 0) return options.cache_limit;
  std::optional<size_t> limit = default_cache_limit();
  if (!limit) {
    bad_option("TILE_CACHE_LIMIT", environment("TILE_CACHE_LIMIT", ""),
               "bytes, or a number with K, M or G behind it");
  }
  return *limit;
}

// The GPU that "cuda" or "cuda:N" names; nullopt for another text.
std::optional<int> gpu_of(std::string_view name) {
  if (name == "cuda") return 0;
  constexpr std::string_view kNumbered = "cuda:";
  if (!name.starts_with(kNumbered)) return std::nullopt;
  std::string_view digits = name.substr(kNumbered.size());
  int ordinal = -1;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  bool whole = error == std::errc() && end == digits.data() + digits.size() && ordinal >= 0;
  return whole ? std::optional(ordinal) : std::nullopt;
}

// In the order of names, each once, as keys of caches have them.
void take_skipped_passes(std::vector<std::string>& names) {
  for (const std::string& name : names) require_optional(name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

Precision precision_of(const EngineOptions& options) {
  std::optional<Precision> precision = parse_precision(options.precision);
  if (!precision) bad_option("precision", options.precision, "f32, tf32 or 3xtf32");
  return *precision;
}

// A GPU with everything that it takes to use it; null without.
std::shared_ptr<Backend> usable_gpu() {
  try {
    std::shared_ptr<Backend> backend = cuda::shared_backend(0);
    backend->target();
    backend->identity();
    return backend;
  } catch (const Failure&) {
    return nullptr;
  }
}

}  // namespace

// An engine for a GPU that is named by its features only makes code; it runs where the device is
// there.
void Engine::open_backend() {
  const std::string& name = options_.backend;
  std::optional<int> gpu = gpu_of(name);
  if (name != "auto" && name != "cpu" && !gpu) {
    bad_option("backend", name, "auto, cpu, reference, cuda or cuda:N");
  }
  ordinal_ = gpu.value_or(0);
  if (gpu) backend_ = cuda::shared_backend(ordinal_);
  if (name == "auto" && options_.features.empty()) backend_ = usable_gpu();
  if (!backend_) backend_ = cpu::shared_backend();
  target_ =
      options_.features.empty() ? backend_->target() : backend_->target_named(options_.features);
  if (options_.features.empty() || !is_gpu(target_)) {
    session_ = backend_->session(options_.memory_limit, options_.device_allocator);
  }
}

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      budget_(options_.memory_cache_limit != 0 ? options_.memory_cache_limit : kMemoryCache) {
  trace::start_by_environment();
  options_.threads = thread_count(options_);
  take_skipped_passes(options_.skip_passes);
  Precision precision = precision_of(options_);
  if (options_.backend == "reference") {
    device_ = "reference interpreter";
    return;
  }
  open_backend();
  target_.strict_skip = options_.strict_skip || !is_gpu(target_);
  device_ = target_.device + ": " + backend_->description() + ", ";
  if (is_gpu(target_)) {
    target_.precision = precision;
    device_ +=
        target_.features + ", " + std::to_string(target_.gpu.multiprocessors) + " multiprocessors";
    if (precision != Precision::f32) {
      device_ += ", products of f32 as " + std::string(to_string(precision));
    }
  } else {
    if (options_.threads > 0) target_.threads = options_.threads;
    device_ += std::to_string(target_.vector_bits) + "-bit vectors, " +
               std::to_string(target_.threads) + " threads";
  }
  CacheMode mode = cache_mode(options_);
  std::unique_ptr<DiskCache> disk;
  if (mode != CacheMode::off) {
    CacheOptions cache;
    cache.directory = options_.cache_dir;
    cache.mode = mode;
    cache.limit_bytes = cache_limit(options_);
    cache.log = [this](const std::string& message) { log(LogLevel::warning, message); };
    disk = std::make_unique<DiskCache>(std::move(cache));
  }
  kernels_ = std::make_unique<KernelCache>(*backend_, std::move(disk), budget_, skipped_passes(),
                                           options_.time_passes);
  if (is_gpu(target_)) return;
  options_.deterministic ? forget_measurements() : take_rates();
}

std::string Engine::skipped_passes() const {
  std::string text;
  for (const std::string& name : options_.skip_passes) text += (text.empty() ? "" : ",") + name;
  return text;
}

// What the rates depend on: the processor, the code that measures, the threads.
std::string Engine::rates_identity() const {
  return backend_->identity() + "\n" + backend_->target().features + "\nthreads " +
         std::to_string(backend_->target().threads);
}

// What was timed when the process began may be another thing in the next one.
void Engine::forget_measurements() {
  target_.dot_bf16_per_ns = 0;
  target_.dot_i16_per_ns = 0;
  target_.dot_i8_per_ns = 0;
}

void Engine::take_rates() {
  std::string why;
  rates_ = load_rates(kernels_->directory().get(), rates_identity(), why);
  if (!why.empty()) log(LogLevel::warning, "the stored rates of this machine are ignored: " + why);
  if (!rates_ && options_.measure) {
    MachineRates now = measured_rates();
    if (plausible(now)) rates_ = now;
  }
  if (rates_) apply(*rates_, target_);
}

MachineRates Engine::measured_rates() {
  std::lock_guard lock(measuring_);
  if (rates_) return *rates_;
  if (!measured_later_) {
    MachineRates rates = cpu::measure_rates(backend_->target());
    if (!plausible(rates)) rates = cpu::measure_rates(backend_->target());
    // What a busy machine shows is not kept: a later process measures again.
    bool keep = plausible(rates);
    if (!keep) {
      log(LogLevel::info, "rates that no machine has, raised: " + describe(rates));
      rates = raised(rates);
    }
    measured_later_ = plausible(rates) ? rates : MachineRates{};
    if (keep && kernels_->writes()) {
      store_rates(kernels_->directory().get(), rates_identity(), rates);
    }
  }
  return *measured_later_;
}

std::shared_ptr<Engine> Engine::create(EngineOptions options) {
  LockingCall call;
  return std::shared_ptr<Engine>(new Engine(std::move(options)));
}

}  // namespace tile
