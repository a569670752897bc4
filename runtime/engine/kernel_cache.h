// Compiled kernels by value: the printed nest without names, the target and the backend's identity.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "backends/backend.h"
#include "core/schedule/kernel.h"

namespace tile {

class DiskCache;
class TuningRecords;

class KernelCache {
 public:
  // `disk` may be null: memory only.
  KernelCache(Backend& backend, std::unique_ptr<DiskCache> disk);
  ~KernelCache();

  // Compiled, loaded from disk, or found; each kernel is compiled once however many threads ask.
  // Throws Failure.
  std::shared_ptr<const Code> get(const nest::Nest& nest, const Target& target);

  // Like get() where the code is in memory or on disk; else compiled for the caller alone.
  std::shared_ptr<const Code> trial(const nest::Nest& nest, const Target& target);

  // The schedule that tuning found best for a kernel on this target, in memory or on disk; its text
  // (see print(Schedule)).
  std::optional<std::string> tuned_schedule(const Kernel& kernel, const Target& target);
  void remember_schedule(const Kernel& kernel, const Target& target, const std::string& schedule,
                         double ns);

  std::atomic<uint64_t> compiled{0};
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> disk_hits{0};

 private:
  struct Entry;
  std::shared_ptr<const Code> make(const nest::Nest& nest, const Target& target,
                                   const std::string& key);
  std::string key_of(const nest::Nest& nest, const Target& target) const;
  std::shared_ptr<const Code> stored(const nest::Nest& nest, const Target& target,
                                     const std::string& key);
  Backend& backend_;
  std::unique_ptr<DiskCache> disk_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Entry>> entries_;
  TuningRecords& records(const Target& target);
  std::unordered_map<std::string, std::unique_ptr<TuningRecords>> records_;  // by target
};

}  // namespace tile
