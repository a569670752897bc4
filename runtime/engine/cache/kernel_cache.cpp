#include "runtime/engine/cache/kernel_cache.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <span>

#include "backends/trace.h"
#include "core/kernel/canonical.h"
#include "core/nest/source_lines.h"
#include "core/schedule/search/schedule_transfer.h"
#include "core/support/control.h"
#include "core/target/rates.h"
#include "runtime/engine/cache/disk_cache.h"
#include "runtime/engine/concurrency/call_control.h"
#include "runtime/engine/records/processor_key.h"
#include "runtime/engine/records/tuning_records.h"

namespace tile {

namespace {

// What linked code takes beside its object, which the linker copies: a page of rounding and what
// LLVM notes of it (seen: 20 KB for a tiny kernel).
constexpr size_t kLinkedBytes = 20 << 10;

size_t bytes_of(const std::string& key, const Code* code) {
  return 2 * key.size() + (code == nullptr ? 0 : 2 * code->object().size() + kLinkedBytes);
}

}  // namespace

// Whoever comes first makes the code under the entry's own lock; others wait there. An entry lives
// as long as anyone uses its code: pointers to code own the entry.
struct KernelCache::Entry : MemoryBudget::Item {
  Entry(KernelCache& own, Slot& of) : cache(own), slot(of) {}
  std::shared_ptr<Item> evicted() noexcept override { return cache.evicted(slot); }
  KernelCache& cache;
  Slot& slot;
  std::timed_mutex mutex;
  std::shared_ptr<const Code> code;
};

KernelCache::KernelCache(Backend& backend, std::unique_ptr<DiskCache> disk, MemoryBudget& budget,
                         std::string skipped_passes, bool cold)
    : backend_(backend),
      skipped_passes_(std::move(skipped_passes)),
      cold_(cold),
      disk_(std::move(disk)),
      budget_(budget) {}
KernelCache::~KernelCache() = default;

// What code depends on beside the kernel.
std::string KernelCache::identity(const Target& target) const {
  std::string text = backend_.identity() + "\n" + to_string(without_rates(target));
  return skipped_passes_.empty() ? text : text + "\nwithout " + skipped_passes_;
}

std::string KernelCache::key_of(const nest::Nest& nest, const Target& target) const {
  return identity(target) + "\n" + print(nest, true) + print_lines(nest);
}

bool KernelCache::reads_disk() const {
  return disk_ && !cold_ && disk_->mode() != CacheMode::verify;
}

KernelCache::Found KernelCache::entry_of(const std::string& key) {
  std::lock_guard lock(mutex_);
  if (slots_.size() > sweep_at_) drop_dead_slots();
  Slot& slot = slots_[key];
  if (slot.entry) return {slot.entry};
  slot.entry = slot.evicted.lock();
  if (slot.entry) return {slot.entry, true};
  slot.entry = std::make_shared<Entry>(*this, slot);
  return {slot.entry};
}

// Those whose code nobody uses any more.
void KernelCache::drop_dead_slots() {
  std::erase_if(slots_, [](const auto& at) {
    const Slot& slot = at.second;
    return !slot.entry && slot.evicted.expired();
  });
  sweep_at_ = 2 * slots_.size() + 64;
}

std::shared_ptr<MemoryBudget::Item> KernelCache::evicted(Slot& slot) noexcept {
  std::lock_guard lock(mutex_);
  slot.evicted = slot.entry;
  return std::move(slot.entry);
}

bool KernelCache::is_evicted(const Entry& entry) {
  std::lock_guard lock(mutex_);
  return entry.slot.entry.get() != &entry;
}

template <class Make>
std::shared_ptr<const Code> KernelCache::found_or_made(const std::string& key, const Make& make) {
  for (;;) {
    auto [entry, again] = entry_of(key);
    entry->use();
    std::unique_lock lock = patient_lock(entry->mutex);
    if (entry->code) {
      ++hits;
      if (again) budget_.add(*entry, bytes_of(key, entry->code.get()));
    } else {
      // While it is made it counts nothing and stays; what could not be made counts its key.
      budget_.remove(*entry);
      if (is_evicted(*entry)) continue;
      try {
        entry->code = make();
      } catch (...) {
        budget_.add(*entry, bytes_of(key, nullptr));
        throw;
      }
      budget_.add(*entry, bytes_of(key, entry->code.get()));
      if (!entry->code) return nullptr;
    }
    return {entry, entry->code.get()};
  }
}

std::shared_ptr<const Code> KernelCache::get(const nest::Nest& nest, const Target& target) {
  return get(key_of(nest, target), nest, target);
}

std::shared_ptr<const Code> KernelCache::get(const std::string& key, const nest::Nest& nest,
                                             const Target& target, PassObserver* observer) {
  return found_or_made(key, [&] { return make(nest, target, key, observer); });
}

std::shared_ptr<const Code> KernelCache::find(const std::string& key, const Target& target) {
  return found_or_made(key, [&]() -> std::shared_ptr<const Code> {
    std::optional<std::vector<std::byte>> object;
    if (disk_ && !cold_) object = disk_->read(key);
    std::shared_ptr<const Code> code = object ? backend_.restore(target, *object) : nullptr;
    if (code) ++disk_hits;
    return code;
  });
}

std::optional<std::vector<std::byte>> KernelCache::record(const std::string& key) const {
  if (!reads_disk()) return std::nullopt;
  return disk_->read(key);
}

void KernelCache::keep_record(const std::string& key, std::span<const std::byte> bytes) const {
  if (!disk_) return;
  if (disk_->mode() == CacheMode::verify) {
    auto before = disk_->read(key);
    if (before && !std::ranges::equal(*before, bytes)) {
      throw InternalError("the disk cache holds another record of the same executable");
    }
  }
  disk_->write(key, bytes);
}

std::string KernelCache::tuning_stamp(const Target& target) { return records(target).stamp(); }

TuningRecords& KernelCache::records(const Target& target) {
  std::string of = processor_key(backend_, target, skipped_passes_);
  std::lock_guard lock(mutex_);
  std::unique_ptr<TuningRecords>& slot = records_[of];
  if (!slot) {
    auto log = [this](const std::string& message) { disk_->log(message); };
    slot = std::make_unique<TuningRecords>(directory(), writes(), of, log);
  }
  return *slot;
}

std::vector<RankedSchedule> KernelCache::tuned_schedules(const Kernel& kernel,
                                                         const Target& target) {
  TuningRecords& all = records(target);
  if (all.empty()) return {};  // a kernel's key is a long text
  return all.ranking(record_key(kernel));
}
std::optional<std::string> KernelCache::tuned_schedule(const Kernel& kernel, const Target& target) {
  return records(target).find(record_key(kernel));
}

std::shared_ptr<const PrivateDirectory> KernelCache::directory() const {
  return disk_ ? disk_->directory() : nullptr;
}
bool KernelCache::writes() const { return disk_ && disk_->mode() != CacheMode::read_only; }

std::vector<Schedule> KernelCache::transferred_schedules(const Kernel& kernel, const Target& target,
                                                         size_t limit) {
  std::vector<std::pair<double, Schedule>> found;
  Kernel own = canonical(kernel);
  for (const TuningRecord& record : records(target).similar(record_key(kernel))) {
    try {
      Kernel other = kernel_of_key(record.kernel);
      double far = distance(own, other);
      if (!std::isfinite(far)) continue;
      found.emplace_back(far, resized(parse_schedule(record.schedule), other, kernel));
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {  // a record that cannot be read is none
      checkpoint();
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Schedule> nearest;
  for (auto& [far, schedule] : found) {
    if (nearest.size() < limit) nearest.push_back(std::move(schedule));
  }
  return nearest;
}

void KernelCache::remember_schedule(const Kernel& kernel, const Target& target,
                                    const std::string& schedule, double ns) {
  TuningRecord record{record_key(kernel), schedule, ns};
  record.name = kernel.name;
  records(target).add(record);
}

std::shared_ptr<const Code> KernelCache::known(const std::string& key) {
  std::lock_guard lock(mutex_);
  auto at = slots_.find(key);
  std::shared_ptr<Entry> entry = at == slots_.end() ? nullptr : at->second.entry;
  if (!entry || !entry->mutex.try_lock()) return nullptr;
  std::lock_guard own(entry->mutex, std::adopt_lock);
  if (!entry->code) return nullptr;
  entry->use();
  return {entry, entry->code.get()};
}

std::shared_ptr<const Code> KernelCache::trial(const nest::Nest& nest, const Target& target) {
  std::string key = key_of(nest, target);
  if (std::shared_ptr<const Code> code = known(key)) return code;
  if (std::shared_ptr<const Code> code = stored(nest, target, key)) return code;
  ++compiled;
  return backend_.compile(nest, target);
}

std::shared_ptr<const Code> KernelCache::keep(const nest::Nest& nest, const Target& target,
                                              std::shared_ptr<const Code> trial) {
  std::string key = key_of(nest, target);
  return found_or_made(key, [&] {
    store(key, *trial);
    return std::move(trial);
  });
}

std::shared_ptr<const Code> KernelCache::stored(const nest::Nest& nest, const Target& target,
                                                const std::string& key) {
  if (!reads_disk()) return nullptr;
  trace::Scope span("cache", "look for a kernel");
  std::optional<std::vector<std::byte>> object = disk_->read(key);
  std::shared_ptr<const Code> code = object ? backend_.load(nest, target, *object) : nullptr;
  if (code) ++disk_hits;
  return code;
}

std::shared_ptr<const Code> KernelCache::make(const nest::Nest& nest, const Target& target,
                                              const std::string& key, PassObserver* observer) {
  if (std::shared_ptr<const Code> code = stored(nest, target, key)) return code;
  trace::Scope span("compile", nest.name);
  std::shared_ptr<const Code> code = backend_.compile(nest, target, observer);
  ++compiled;
  store(key, *code);
  return code;
}

void KernelCache::store(const std::string& key, const Code& code) const {
  if (!disk_) return;
  if (disk_->mode() == CacheMode::verify) {
    auto before = disk_->read(key);
    if (before && !std::ranges::equal(*before, code.object())) {
      throw InternalError("the disk cache holds another object for the same kernel");
    }
  }
  disk_->write(key, code.object());
}

}  // namespace tile
