// Engine: a backend, its caches and options. Shared by programs and executables; thread safe.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "backends/backend.h"
#include "core/autodiff/differentiate.h"
#include "core/language/language.h"
#include "core/target/rates.h"
#include "runtime/engine/cache/kernel_cache.h"
#include "runtime/engine/cache/once_map.h"
#include "runtime/engine/concurrency/call_control.h"
#include "runtime/engine/concurrency/event_count.h"
#include "runtime/engine/executable.h"
#include "runtime/engine/live_executable.h"
#include "runtime/engine/shared_constants.h"

namespace tile {

enum class LogLevel : uint8_t { error, warning, info };

// Bytes of what an engine keeps in memory to find it again, where no limit is given: some thousand
// executables, or some hundred whose sizes take code of their own.
constexpr size_t kMemoryCache = size_t{64} << 20;
constexpr double kCompileSeconds = 10;
// Runs of one size after which code for it alone is worth its compilation.
constexpr size_t kOwnCodeRuns = 200;

struct EngineOptions {
  std::string backend = "auto";  // auto, cpu, reference, cuda, cuda:N (the GPU numbered N)
  std::string features;          // empty: the host's
  int threads = 0;
  size_t memory_limit = 0;
  std::string cache_dir;
  std::string cache_mode;
  size_t cache_limit = 0;                // bytes; 0: TILE_CACHE_LIMIT, else kCacheLimit
  size_t memory_cache_limit = 0;         // bytes; 0: kMemoryCache
  bool strict_skip = false;              // rule 4.12; the CPU always is
  bool deterministic = false;            // nothing measured or tuned counts: see tile.h
  std::string precision = "f32";         // of f32 products on tensor cores; see Precision
  std::vector<std::string> skip_passes;  // names of optional passes that are left out
  // Keeps the times of each executable's passes. Everything is then compiled: no code and no record
  // is read from the disk.
  bool time_passes = false;
  // Measures the rates of this CPU where none are stored (up to 0.3 s); otherwise what is stored
  // counts, or the defaults.
  bool measure = false;
  std::function<void(LogLevel, const std::string&)> log;
  std::function<bool()> cancelled;
  bool cancel_spares_runs = false;  // `cancelled` is not for runs
  Allocator host_allocator;         // of what runs and constants take; not given: the library's own
  Allocator device_allocator;       // the same of a device
  ParallelFor parallel_for;         // the host's threads; not given: oneTBB's
  Limits limits;
  double compile_seconds = kCompileSeconds;  // of the processor, for one compilation or text
  // Runs of a size with code that it shares with others until its own is made in the background; 0:
  // it never is.
  size_t own_code_runs = kOwnCodeRuns;

  bool cancels_runs() const { return cancelled && !cancel_spares_runs; }
};

struct Statistics {
  std::atomic<uint64_t> binds{0};
  EventCount executable_hits;
  std::atomic<uint64_t> temporary_bytes{0};
  std::atomic<uint64_t> constant_bytes{0};  // of the host, that executables' constants take now
};

// A kernel for a class of sizes under one of its schedules, without code.
struct ClassForm {
  CopyOnWrite<nest::Nest> nest;
  std::string key;  // of its code in the kernel cache
  std::vector<PrepackedCopy> prepared;
};
// Made for the first size of a class that is compiled; later ones find them.
struct SizeClasses {
  explicit SizeClasses(MemoryBudget& budget) : schedules(budget), forms(budget) {}
  OnceMap<std::optional<Schedule>> schedules;  // see class_schedule
  OnceMap<ClassForm> forms;
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
  // The host's threads; null: the library's own.
  const ParallelFor* pool() const {
    return options_.parallel_for.is_given() ? &options_.parallel_for : nullptr;
  }
  KernelCache& kernels() { return *kernels_; }
  // What the caches of this engine keep in memory.
  MemoryBudget& budget() { return budget_; }
  SizeClasses& size_classes() { return size_classes_; }
  SharedConstants& shared_constants() { return shared_constants_; }
  // Where its files are, null: nowhere; and whether it writes any.
  const PrivateDirectory* directory() const {
    return kernels_ ? kernels_->directory().get() : nullptr;
  }
  bool writes_files() const { return kernels_ && kernels_->writes(); }
  // Of this CPU, stored or measured when the engine was made; nullopt: neither.
  const std::optional<MachineRates>& rates() const { return rates_; }
  // The same, measured and stored now where there are none: later engines count with them, this
  // one's target stays.
  MachineRates measured_rates();
  // The optional passes that are left out, separated by commas: a part of cache keys.
  std::string skipped_passes() const;
  void log(LogLevel level, const std::string& message) const {
    if (options_.log) options_.log(level, message);
  }
  Statistics statistics;

 private:
  explicit Engine(EngineOptions options);
  void open_backend();
  std::string rates_identity() const;
  void take_rates();
  void forget_measurements();
  EngineOptions options_;
  MemoryBudget budget_;
  std::shared_ptr<Backend> backend_;  // null: the reference interpreter
  Target target_;
  std::string device_;
  int ordinal_ = 0;
  std::unique_ptr<DeviceSession> session_;
  std::unique_ptr<KernelCache> kernels_;
  SizeClasses size_classes_{budget_};
  SharedConstants shared_constants_;
  std::optional<MachineRates> rates_;
  std::mutex measuring_;
  std::optional<MachineRates> measured_later_;
};

// A program loaded into an engine, with the executables made from it. They count against the
// engine's budget in memory: those unused for longest go, but none under its users. Thread safe.
class LoadedProgram : public std::enable_shared_from_this<LoadedProgram> {
 public:
  // `before`: the times of what made the program; may be null.
  LoadedProgram(std::shared_ptr<Engine> engine, std::shared_ptr<const Program> program,
                std::shared_ptr<const PassTimes> before = nullptr);
  ~LoadedProgram();

  const std::shared_ptr<Engine>& engine() const { return engine_; }
  const Program& program() const { return *program_; }
  const std::string& text() const { return text_; }
  // What inputs are that may be left out.
  const InputDefaults& defaults() const { return defaults_; }
  // Of what made the program; null where the engine does not measure them.
  const std::shared_ptr<const PassTimes>& times_before() const { return times_before_; }

  // What these tensors are compiled for, with the values of those that set sizes. Throws Failure.
  std::vector<InputLayout> layouts_of(std::span<const TensorView> inputs) const;

  // The executable for these layouts, compiled at most once however many threads ask. One that was
  // compiled just now has all of its stages, one that was found what runs need. Throws Failure.
  std::shared_ptr<const Executable> executable(const std::vector<InputLayout>& inputs);
  // The same for tensors at hand: a hit makes no layouts.
  std::shared_ptr<const Executable> executable(std::span<const TensorView> inputs);
  // The same as others tune it.
  std::shared_ptr<LiveExecutable> live(std::span<const TensorView> inputs);
  // The one that was found or compiled last; null before. Good as long as the caller is in the
  // ReadSection in which it asked.
  const Executable* last() const {
    Slot& slot = *last_.load(std::memory_order_acquire);
    if (!slot.used.load(std::memory_order_relaxed)) {
      slot.used.store(true, std::memory_order_relaxed);
    }
    return slot.executable.load(std::memory_order_acquire);
  }
  // The same to keep.
  std::shared_ptr<const Executable> kept_last() const {
    ReadSection section;
    const Executable* e = last();
    return e == nullptr ? nullptr : e->shared_from_this();
  }
  // An executable of its own in which the inputs with these numbers are constant: their elements
  // are copied. Throws Failure.
  std::shared_ptr<const Executable> executable(std::span<const TensorView> inputs,
                                               std::span<const size_t> constants);
  std::shared_ptr<LiveExecutable> live(std::span<const TensorView> inputs,
                                       std::span<const size_t> constants);
  // What live() compiles, apart from the caller's tensors: copies of what it reads of them.
  struct Request {
    std::vector<InputLayout> layouts;
    std::vector<ConstantInput> constants;
  };
  Request request(std::span<const TensorView> inputs, std::span<const size_t> constants) const;
  std::shared_ptr<LiveExecutable> live(Request request);
  // Runs find what the executable runs now. Its caller has put it in the place of another.
  void replaced(const LiveExecutable& live) noexcept;

 private:
  struct Entry;
  // Where runs find an executable without a lock.
  struct Slot {
    std::atomic<const Executable*> executable{nullptr};
    std::atomic<bool> used{false};  // since the budget asked last
    const Entry* entry = nullptr;   // under the program's lock
    void show(const Entry* from, const Executable* what) {
      entry = from;
      executable.store(what, std::memory_order_release);
    }
  };
  struct Found {
    std::shared_ptr<LiveExecutable> live;
    std::shared_ptr<const Executable> stages;  // of one compiled just now
    std::shared_ptr<const Executable> executable() const {
      return stages ? stages : live->snapshot();
    }
  };
  std::optional<int64_t> sizing_value(size_t input, const TensorView& view) const;
  Found found_or_compiled(std::span<const TensorView> inputs);
  // `hash`: of the layouts, where the next look-up finds the executable without a lock.
  template <class Layouts>
  Found found_or_compiled(uint64_t hash, const std::string& key, const Layouts& layouts);
  // The executable seen last with this hash, if `fits` accepts it; else null.
  template <class Fits>
  std::shared_ptr<const Executable> recent(uint64_t hash, const Fits& fits);
  bool fits(const Executable& executable, std::span<const TensorView> inputs) const;
  Found found_or_compiled(const std::vector<InputLayout>& inputs, uint64_t hash);
  std::shared_ptr<const Executable> compiled(Request request);
  std::shared_ptr<Entry> entry_of(const std::string& key, bool& first);
  // The class of sizes that layouts are in, if any; `first`: they are what others are compared
  // with.
  std::shared_ptr<const ClassProgram> class_of_sizes(const std::vector<InputLayout>& layouts,
                                                     bool first);
  std::shared_ptr<MemoryBudget::Item> evicted(Entry& entry) noexcept;
  bool was_used(const Entry& entry) noexcept;
  bool is_in_table(const Entry& entry);
  void show(uint64_t hash, const Entry& entry);

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<const Program> program_;
  std::shared_ptr<const PassTimes> times_before_;
  std::string text_;
  InputDefaults defaults_;
  std::vector<size_t> sizing_;  // numbers of the inputs whose values sizes are made of
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Entry>> entries_;  // by the layouts' bytes
  bool had_entries_ = false;
  // What the first executable was compiled for: what others differ in may differ again. By which
  // inputs are constant.
  std::map<std::vector<bool>, std::vector<InputLayout>> first_;
  std::unique_ptr<OnceMap<ClassProgram>> classes_;  // by the class's key
  std::array<Slot, 64> recent_;                     // by the hash of their layouts
  std::atomic<Slot*> last_{&recent_.front()};       // empty at first
  std::atomic<bool> with_constants_{false};         // some executable has constants
};

// The program of a text. Throws Failure (stage parse).
std::shared_ptr<LoadedProgram> parsed(const std::shared_ptr<Engine>& engine, Language language,
                                      const SourcePtr& source);
// The program with gradients; see differentiate(). Throws Failure.
std::shared_ptr<LoadedProgram> differentiated(const LoadedProgram& program, const std::string& of,
                                              const std::vector<std::string>& wrt,
                                              const GivenGradients& given = {});

}  // namespace tile
