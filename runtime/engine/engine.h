// Engine: a backend, its caches and options. Shared by programs and executables; thread safe.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>

#include "backends/backend.h"
#include "core/language/language.h"
#include "core/schedule/rates.h"
#include "runtime/engine/event_count.h"
#include "runtime/engine/executable.h"
#include "runtime/engine/kernel_cache.h"
#include "runtime/engine/made_once.h"

namespace tile {

enum class LogLevel : uint8_t { error, warning, info };

struct EngineOptions {
  std::string backend = "auto";  // auto, cpu, reference, cuda, cuda:N (the GPU numbered N)
  std::string features;          // empty: the host's
  int threads = 0;
  size_t memory_limit = 0;
  std::string cache_dir;
  std::string cache_mode;
  bool strict_skip = false;  // rule 4.12; the CPU always is
  bool deterministic = false;
  std::string precision = "f32";  // of f32 products on tensor cores; see Precision
  // Measures the rates of this CPU where none are stored (up to 0.3 s); otherwise what is stored
  // counts, or the defaults.
  bool measure = false;
  std::function<void(LogLevel, const std::string&)> log;
  std::function<bool()> cancelled;
};

struct Statistics {
  std::atomic<uint64_t> binds{0};
  EventCount executable_hits;
  std::atomic<uint64_t> temporary_bytes{0};
  std::atomic<uint64_t> constant_bytes{0};  // of the host, that executables' constants take now
};

// A kernel for a class of sizes under one of its schedules, without code.
struct ClassForm {
  nest::Nest nest;
  std::vector<PreparedCopy> prepared;
};
// Made for the first size of a class that is compiled; later ones find them.
struct SizeClasses {
  MadeOnce<std::vector<Schedule>> schedules;  // see class_schedules
  MadeOnce<ClassForm> forms;
};

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  // Throws Failure (stage run, code "argument") for an unknown backend, features or cache mode.
  static std::shared_ptr<Engine> create(EngineOptions options);

  const EngineOptions& options() const { return options_; }
  bool is_reference() const { return backend_ == nullptr; }
  Backend& backend() const { return *backend_; }
  const Target& target() const { return target_; }
  // Null where tensors live in the host's memory.
  DeviceSession* session() const { return session_.get(); }
  const std::string& device() const { return device_; }
  int ordinal() const { return ordinal_; }  // of the GPU
  KernelCache& kernels() { return *kernels_; }
  SizeClasses& size_classes() { return size_classes_; }
  // Of this CPU, stored or measured when the engine was made; nullopt: neither.
  const std::optional<MachineRates>& rates() const { return rates_; }
  // The same, measured and stored now where there are none: later engines count with them, this
  // one's target stays.
  MachineRates measured_rates();
  void log(LogLevel level, const std::string& message) const {
    if (options_.log) options_.log(level, message);
  }
  Statistics statistics;

 private:
  explicit Engine(EngineOptions options);
  void open_backend();
  std::string rates_identity() const;
  void take_rates();
  EngineOptions options_;
  std::shared_ptr<Backend> backend_;  // null: the reference interpreter
  Target target_;
  std::string device_;
  int ordinal_ = 0;
  std::unique_ptr<DeviceSession> session_;
  std::unique_ptr<KernelCache> kernels_;
  SizeClasses size_classes_;
  std::optional<MachineRates> rates_;
  std::mutex measuring_;
  std::optional<MachineRates> measured_later_;
};

// A program loaded into an engine, with the executables made from it.
class LoadedProgram {
 public:
  LoadedProgram(std::shared_ptr<Engine> engine, std::shared_ptr<const Program> program);

  const std::shared_ptr<Engine>& engine() const { return engine_; }
  const Program& program() const { return *program_; }
  const std::string& text() const { return text_; }
  // What inputs are that may be left out.
  const InputDefaults& defaults() const { return defaults_; }

  // The executable for these layouts, compiled at most once however many threads ask. Throws
  // Failure.
  std::shared_ptr<Executable> executable(const std::vector<InputLayout>& inputs);
  // The one that was found or compiled last; null before. It lives as long as the program.
  Executable* last() const { return last_.load(std::memory_order_acquire); }
  // The same for tensors at hand: a hit makes no layouts.
  std::shared_ptr<Executable> executable(std::span<const TensorView> inputs);
  // An executable of its own in which the inputs with these numbers are constant: their elements
  // are copied. Throws Failure.
  std::shared_ptr<Executable> executable(std::span<const TensorView> inputs,
                                         std::span<const size_t> constants);

 private:
  struct Entry;
  std::optional<int64_t> sizing_value(size_t input, const TensorView& view) const;
  std::vector<InputLayout> layouts_of(std::span<const TensorView> inputs) const;
  // `hash`: of the layouts, where the next look-up finds the executable without a lock.
  template <class Layouts>
  std::shared_ptr<Executable> found_or_compiled(uint64_t hash, std::string key,
                                                const Layouts& layouts);
  // The executable seen last with this hash, if `fits` accepts it; else null.
  template <class Fits>
  std::shared_ptr<Executable> recent(uint64_t hash, const Fits& fits);
  bool fits(const Executable& executable, std::span<const TensorView> inputs) const;
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<const Program> program_;
  std::string text_;
  InputDefaults defaults_;
  std::vector<size_t> sizing_;  // numbers of the inputs whose values sizes are made of
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Entry>> entries_;  // by the layouts' bytes
  std::atomic<Executable*> last_{nullptr};
  std::atomic<bool> with_constants_{false};  // some executable has constants
  // Entries by the hash of their layouts; they live as long as the program and, once here, do not
  // change.
  std::array<std::atomic<const Entry*>, 64> recent_{};
};

}  // namespace tile
