// An engine of the library, and its messages on their way to Python's logging.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "errors.h"
#include "tile/tile.h"

namespace tilejit {

namespace nb = nanobind;

// The library logs from any thread, with or without the interpreter, which may be gone: messages
// wait here until a thread that has the GIL hands them on.
class LogQueue {
 public:
  static void add(void* self, tile_log_level level, const char* message) noexcept;
  // Hands them to the logger "tilejit". Needs the GIL.
  void drain() {
    if (waiting_.load(std::memory_order_relaxed)) hand_on();
  }

 private:
  void hand_on();

  std::atomic<bool> waiting_{false};
  std::mutex mutex_;
  std::vector<std::pair<tile_log_level, std::string>> messages_;
};

struct EngineOptions {
  std::string backend = "cpu";
  std::optional<std::string> features, cache_dir, cache_mode, precision;
  int threads = 0;
  size_t memory_limit = 0, cache_limit = 0, memory_cache_limit = 0;
  bool deterministic = false;
  uint64_t limit_compile_ms = 0;
  nb::object device_memory;  // None, or functions that take and give back memory of the device
};

// Memory of the device from functions of Python's, of a framework's allocator for one.
class DeviceMemory {
 public:
  DeviceMemory(nb::object allocate, nb::object release)
      : allocate_(std::move(allocate)), release_(std::move(release)) {}
  // As tile_allocator's, with this as `user`.
  static void* allocate(void* self, size_t bytes, size_t alignment, void* stream) noexcept;
  static void release(void* self, void* memory, size_t bytes, void* stream) noexcept;

 private:
  nb::object allocate_, release_;
};

class Engine {
 public:
  explicit Engine(const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  tile_engine* get() const { return engine_; }
  LogQueue& log() const { return *log_; }
  const std::string& backend() const { return backend_; }
  // The device that its runs use in place: kDLCPU or kDLCUDA.
  bool on_device() const { return on_device_; }
  // Whether every run is long enough to be asked for signals.
  bool is_reference() const { return backend_ == "reference"; }
  nb::dict statistics() const;

 private:
  tile_engine* engine_ = nullptr;
  // Never freed, as device memory may be given back when the engine is gone; null: the library's.
  DeviceMemory* device_memory_ = nullptr;
  // Never freed: threads of the library may still write to it when the engine is gone.
  LogQueue* log_;
  std::string backend_;
  bool on_device_ = false;
};

// Runs `call`, which returns a tile_error*, without the GIL; raises its error.
template <class Call>
void released(const Engine& engine, Call&& call) {
  tile_error* error = nullptr;
  {
    Released now;
    error = call();
  }
  engine.log().drain();
  check(error);
}

void bind_engine(nb::module_& module);

}  // namespace tilejit
