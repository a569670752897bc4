// Compiled kernels by value: the printed nest without names, the target and the backend's identity.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/backend.h"
#include "core/kernel/schedule.h"
#include "runtime/engine/cache/memory_budget.h"
#include "runtime/engine/cache/text_hash.h"

namespace tile {

class DiskCache;
class PrivateDirectory;
class TuningRecords;
struct RankedSchedule;

// Code counts against the engine's budget in memory; what an executable uses is found here as long
// as it uses it.
class KernelCache {
 public:
  // `disk` may be null: memory only. The budget outlives the cache. `skipped_passes`: of the
  // compiler, whose code and records are apart from all others. `cold`: no code and no record of an
  // executable is read from the disk.
  KernelCache(Backend& backend, std::unique_ptr<DiskCache> disk, MemoryBudget& budget,
              std::string skipped_passes = "", bool cold = false);
  ~KernelCache();

  // Compiled, loaded from disk, or found; each kernel is compiled once however many threads ask.
  // Throws Failure.
  std::shared_ptr<const Code> get(const nest::Nest& nest, const Target& target);

  // By the key alone: what is in memory, or on disk and loads without its nest; else null.
  std::shared_ptr<const Code> find(const std::string& key, const Target& target);
  std::string key_of(const nest::Nest& nest, const Target& target) const;
  // get() for a key that is known. The observer, which may be null, is told of what makes code.
  std::shared_ptr<const Code> get(const std::string& key, const nest::Nest& nest,
                                  const Target& target, PassObserver* observer = nullptr);

  // What get() would find in memory, made and not evicted; null: nothing, or others are at it.
  std::shared_ptr<const Code> known(const std::string& key);

  // Like get() where the code is in memory or on disk; else compiled for the caller alone.
  std::shared_ptr<const Code> trial(const nest::Nest& nest, const Target& target);
  // From now on get() gives what trial() made of the nest.
  std::shared_ptr<const Code> keep(const nest::Nest& nest, const Target& target,
                                   std::shared_ptr<const Code> trial);

  // The schedules that tuning found for a kernel on this target, in memory or on disk, the best
  // first (see ranked()), and the text of the first.
  std::vector<RankedSchedule> tuned_schedules(const Kernel& kernel, const Target& target);
  std::optional<std::string> tuned_schedule(const Kernel& kernel, const Target& target);
  void remember_schedule(const Kernel& kernel, const Target& target, const std::string& schedule,
                         double ns);
  // What is on record for this kind of processor; lives as long as the cache.
  TuningRecords& records(const Target& target);
  // What tuning found for kernels that differ from this one in sizes alone, of the nearest first;
  // at most `limit`.
  std::vector<Schedule> transferred_schedules(const Kernel& kernel, const Target& target,
                                              size_t limit);
  // Of the disk cache; null without one that can be used.
  std::shared_ptr<const PrivateDirectory> directory() const;
  bool writes() const;  // files there
  // Changes with what tuned_schedule() answers.
  std::string tuning_stamp(const Target& target);

  // Records of executables, on disk alone. In mode `verify` none is read, and keeping one that
  // differs from what is stored throws InternalError.
  bool keeps_records() const { return disk_ != nullptr; }
  std::optional<std::vector<std::byte>> record(const std::string& key) const;
  void keep_record(const std::string& key, std::span<const std::byte> bytes) const;

  std::atomic<uint64_t> compiled{0};
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> disk_hits{0};

 private:
  struct Entry;
  // The entry, or the one that was evicted and is still in use.
  struct Slot {
    std::shared_ptr<Entry> entry;
    std::weak_ptr<Entry> evicted;
  };
  struct Found {
    std::shared_ptr<Entry> entry;
    bool again = false;  // it is taken back
  };
  Found entry_of(const std::string& key);
  void drop_dead_slots();
  bool is_evicted(const Entry& entry);
  std::shared_ptr<MemoryBudget::Item> evicted(Slot& slot) noexcept;
  // The entry's code, made by make(entry's key) where there is none; null if that makes none.
  template <class Make>
  std::shared_ptr<const Code> found_or_made(const std::string& key, const Make& make);
  std::shared_ptr<const Code> make(const nest::Nest& nest, const Target& target,
                                   const std::string& key, PassObserver* observer);
  std::string identity(const Target& target) const;
  bool reads_disk() const;
  std::shared_ptr<const Code> stored(const nest::Nest& nest, const Target& target,
                                     const std::string& key);
  void store(const std::string& key, const Code& code) const;
  Backend& backend_;
  const std::string skipped_passes_;
  const bool cold_;
  std::unique_ptr<DiskCache> disk_;
  MemoryBudget& budget_;
  std::mutex mutex_;
  std::unordered_map<std::string, Slot, TextHash> slots_;
  size_t sweep_at_ = 64;                                                     // slots
  std::unordered_map<std::string, std::unique_ptr<TuningRecords>> records_;  // by processor
};

}  // namespace tile
