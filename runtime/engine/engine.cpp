#include "runtime/engine/engine.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/measure_rates.h"
#include "backends/cuda/cuda_backend.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/disk_cache.h"
#include "runtime/engine/machine_rates.h"

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

int thread_count(const EngineOptions& options) {
  std::string text =
      environment("TILE_THREADS", options.threads > 0 ? std::to_string(options.threads) : "");
  if (text.empty()) return 0;
  int threads = std::atoi(text.c_str());
  if (threads < 1) bad_option("TILE_THREADS", text, "a positive number");
  return threads;
}

CacheMode cache_mode(const EngineOptions& options) {
  std::string text = environment("TILE_CACHE", options.cache_mode);
  if (text.empty()) return CacheMode::read_write;
  std::optional<CacheMode> mode = parse_cache_mode(text);
  if (!mode) bad_option("cache mode", text, "rw, ro, off or verify");
  return *mode;
}

// A layout as bytes, for the hash table of executables.
void append_key(std::string& key, DType type, const Shape& shape,
                const std::vector<int64_t>& strides) {
  const int64_t head[] = {static_cast<int64_t>(type), static_cast<int64_t>(shape.size()),
                          static_cast<int64_t>(strides.size())};
  auto put = [&](const int64_t* values, size_t count) {
    key.append(reinterpret_cast<const char*>(values), count * sizeof *values);
  };
  put(head, 3);
  put(shape.data(), shape.size());
  put(strides.data(), strides.size());
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

Precision precision_of(const EngineOptions& options) {
  std::optional<Precision> precision = parse_precision(options.precision);
  if (!precision) bad_option("precision", options.precision, "f32, tf32 or 3xtf32");
  return *precision;
}

// Of layouts, from what their keys hold: a product for each number; the last step brings what the
// high bits have of all of them to the low ones, which choose a place.
uint64_t mixed(uint64_t hash, uint64_t value) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
  return (hash ^ value) * kOdd;
}
uint64_t mixed(uint64_t hash, DType type, const Shape& shape, const std::vector<int64_t>& strides) {
  hash = mixed(hash, static_cast<uint64_t>(type) + 256 * shape.size());
  for (int64_t n : shape) hash = mixed(hash, static_cast<uint64_t>(n));
  for (int64_t n : strides) hash = mixed(hash, static_cast<uint64_t>(n));
  return hash ^ (hash >> 32);
}

// Of a few numbers, where a call of memcmp costs more than they do.
bool same_numbers(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}
bool same_layout(const InputLayout& known, DType type, const Shape& shape,
                 const std::vector<int64_t>& strides) {
  return known.type.type == type && same_numbers(known.type.shape, shape) &&
         same_numbers(known.strides, strides);
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
    session_ = backend_->session(options_.memory_limit);
  }
}

Engine::Engine(EngineOptions options) : options_(std::move(options)) {
  options_.threads = thread_count(options_);
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
    cache.log = [this](const std::string& message) { log(LogLevel::warning, message); };
    disk = std::make_unique<DiskCache>(std::move(cache));
  }
  kernels_ = std::make_unique<KernelCache>(*backend_, std::move(disk));
  if (!is_gpu(target_)) take_rates();
}

// What the rates depend on: the processor, the code that measures, the threads.
std::string Engine::rates_identity() const {
  return backend_->identity() + "\n" + backend_->target().features + "\nthreads " +
         std::to_string(backend_->target().threads);
}

void Engine::take_rates() {
  rates_ = load_rates(kernels_->directory(), rates_identity());
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
      store_rates(kernels_->directory(), rates_identity(), rates);
    }
  }
  return *measured_later_;
}

std::shared_ptr<Engine> Engine::create(EngineOptions options) {
  return std::shared_ptr<Engine>(new Engine(std::move(options)));
}

struct LoadedProgram::Entry {
  std::mutex mutex;
  std::shared_ptr<Executable> executable;
};

LoadedProgram::LoadedProgram(std::shared_ptr<Engine> engine, std::shared_ptr<const Program> program)
    : engine_(std::move(engine)),
      program_(std::move(program)),
      text_(print(*program_)),
      defaults_(input_defaults(*program_)) {
  for (TensorId id : sizing_parameters(*program_)) {
    auto at = std::find(program_->inputs.begin(), program_->inputs.end(), id);
    sizing_.push_back(static_cast<size_t>(at - program_->inputs.begin()));
  }
}

// The value of a parameter that sizes are made of; its default where only the layout is known.
std::optional<int64_t> LoadedProgram::sizing_value(size_t input, const TensorView& view) const {
  if (view.data == nullptr) return defaults_[input]->at(0).i;
  if (view.memory == Memory::host)
    return load_element(static_cast<const std::byte*>(view.data), view.type).i;
  TensorId id = program_->inputs[input];
  fail(Stage::run, "argument", {},
       "the parameter " + program_->tensors[static_cast<size_t>(id)].name +
           " sets a size and is in a device's memory",
       "give it in the host's memory");
}

template <class Fits>
std::shared_ptr<Executable> LoadedProgram::recent(uint64_t hash, const Fits& fits) {
  const Entry* entry = recent_[hash % recent_.size()].load(std::memory_order_acquire);
  if (entry == nullptr || !fits(*entry->executable)) return nullptr;
  engine_->statistics.executable_hits.add();
  last_.store(entry->executable.get(), std::memory_order_release);
  return entry->executable;
}

bool LoadedProgram::fits(const Executable& e, std::span<const TensorView> inputs) const {
  if (inputs.size() != e.inputs.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorView& v = inputs[i];
    if (!same_layout(e.inputs[i], v.type, v.shape, v.strides)) return false;
  }
  return std::all_of(sizing_.begin(), sizing_.end(), [&](size_t i) {
    return sizing_value(i, inputs[i]) == e.inputs[i].type.value;
  });
}

std::shared_ptr<Executable> LoadedProgram::executable(const std::vector<InputLayout>& inputs) {
  uint64_t hash = inputs.size();
  for (const InputLayout& i : inputs) hash = mixed(hash, i.type.type, i.type.shape, i.strides);
  auto same = [&](const Executable& e) {
    return std::equal(inputs.begin(), inputs.end(), e.inputs.begin(), e.inputs.end(),
                      [](const InputLayout& a, const InputLayout& b) {
                        return same_layout(b, a.type.type, a.type.shape, a.strides) &&
                               a.type.value == b.type.value;
                      });
  };
  if (std::shared_ptr<Executable> known = recent(hash, same)) return known;
  std::string key;
  for (const InputLayout& i : inputs) append_key(key, i.type.type, i.type.shape, i.strides);
  std::vector<InputLayout> layouts = inputs;
  for (size_t i : sizing_) {
    std::optional<int64_t>& value = layouts.at(i).type.value;
    if (!value) value = defaults_[i]->at(0).i;
    append_key(key, DType::i64, {*value}, {});
  }
  return found_or_compiled(hash, std::move(key), [&] { return layouts; });
}

std::shared_ptr<Executable> LoadedProgram::executable(std::span<const TensorView> inputs) {
  uint64_t hash = inputs.size();
  for (const TensorView& v : inputs) hash = mixed(hash, v.type, v.shape, v.strides);
  auto same = [&](const Executable& e) { return fits(e, inputs); };
  if (std::shared_ptr<Executable> known = recent(hash, same)) return known;
  std::string key;
  for (const TensorView& v : inputs) append_key(key, v.type, v.shape, v.strides);
  for (size_t i : sizing_) append_key(key, DType::i64, {*sizing_value(i, inputs[i])}, {});
  return found_or_compiled(hash, std::move(key), [&] { return layouts_of(inputs); });
}

std::vector<InputLayout> LoadedProgram::layouts_of(std::span<const TensorView> inputs) const {
  std::vector<InputLayout> layouts;
  for (const TensorView& v : inputs) layouts.push_back({{v.type, v.shape}, v.strides});
  for (size_t i : sizing_) layouts[i].type.value = sizing_value(i, inputs[i]);
  return layouts;
}

std::shared_ptr<Executable> LoadedProgram::executable(std::span<const TensorView> inputs,
                                                      std::span<const size_t> constants) {
  if (constants.empty()) return executable(inputs);
  std::vector<InputLayout> layouts = layouts_of(inputs);
  std::vector<ConstantInput> copies = copied_constants(engine_, inputs, constants);
  for (const ConstantInput& c : copies) {
    layouts[c.input].constant = true;
    layouts[c.input].strides = c.copy.strides;
  }
  bool first = !with_constants_.exchange(true) && last() == nullptr;
  return compile(engine_, program_, layouts, first, std::move(copies));
}

template <class Layouts>
std::shared_ptr<Executable> LoadedProgram::found_or_compiled(uint64_t hash, std::string key,
                                                             const Layouts& layouts) {
  std::shared_ptr<Entry> entry;
  bool first = false;
  {
    std::lock_guard lock(mutex_);
    first = entries_.empty();
    std::shared_ptr<Entry>& slot = entries_[std::move(key)];
    if (!slot) slot = std::make_shared<Entry>();
    entry = slot;
  }
  std::lock_guard lock(entry->mutex);
  if (entry->executable) {
    engine_->statistics.executable_hits.add();
  } else {
    // The sizes that a program is first run with are the ones that matter most.
    entry->executable = compile(engine_, program_, layouts(), first);
  }
  last_.store(entry->executable.get(), std::memory_order_release);
  recent_[hash % recent_.size()].store(entry.get(), std::memory_order_release);
  return entry->executable;
}

}  // namespace tile
