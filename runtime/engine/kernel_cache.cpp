#include "runtime/engine/kernel_cache.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/schedule/nearest.h"
#include "core/schedule/rates.h"
#include "runtime/engine/disk_cache.h"
#include "runtime/engine/tuning_records.h"

namespace tile {

// Whoever creates the entry makes the code under the entry's own lock; others wait there.
struct KernelCache::Entry {
  std::mutex mutex;
  std::shared_ptr<const Code> code;
};

KernelCache::KernelCache(Backend& backend, std::unique_ptr<DiskCache> disk)
    : backend_(backend), disk_(std::move(disk)) {}
KernelCache::~KernelCache() = default;

std::string KernelCache::key_of(const nest::Nest& nest, const Target& target) const {
  return backend_.identity() + "\n" + to_string(without_rates(target)) + "\n" + print(nest, true);
}

std::shared_ptr<KernelCache::Entry> KernelCache::entry_of(const std::string& key) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<Entry>& slot = entries_[key];
  if (!slot) slot = std::make_shared<Entry>();
  return slot;
}

std::shared_ptr<const Code> KernelCache::get(const nest::Nest& nest, const Target& target) {
  return get(key_of(nest, target), nest, target);
}

std::shared_ptr<const Code> KernelCache::get(const std::string& key, const nest::Nest& nest,
                                             const Target& target) {
  std::shared_ptr<Entry> entry = entry_of(key);
  std::lock_guard lock(entry->mutex);
  if (entry->code) {
    ++hits;
  } else {
    entry->code = make(nest, target, key);
  }
  return entry->code;
}

std::shared_ptr<const Code> KernelCache::find(const std::string& key, const Target& target) {
  std::shared_ptr<Entry> entry = entry_of(key);
  std::lock_guard lock(entry->mutex);
  if (entry->code) {
    ++hits;
    return entry->code;
  }
  std::optional<std::vector<std::byte>> object = disk_ ? disk_->read(key) : std::nullopt;
  if (object) entry->code = backend_.restore(target, *object);
  if (entry->code) ++disk_hits;
  return entry->code;
}

std::optional<std::vector<std::byte>> KernelCache::record(const std::string& key) const {
  if (!disk_ || disk_->mode() == CacheMode::verify) return std::nullopt;
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
  std::string identity = backend_.identity() + "\n" + to_string(without_rates(target));
  std::lock_guard lock(mutex_);
  std::unique_ptr<TuningRecords>& slot = records_[identity];
  if (!slot) {
    auto log = [this](const std::string& message) { disk_->log(message); };
    slot = std::make_unique<TuningRecords>(directory(), writes(), identity, log);
  }
  return *slot;
}

std::optional<std::string> KernelCache::tuned_schedule(const Kernel& kernel, const Target& target) {
  return records(target).find(print(kernel));
}

std::string KernelCache::directory() const { return disk_ ? disk_->directory() : ""; }
bool KernelCache::writes() const { return disk_ && disk_->mode() != CacheMode::read_only; }

std::vector<Schedule> KernelCache::nearest_schedules(const Kernel& kernel, const Target& target,
                                                     size_t limit) {
  std::vector<std::pair<double, Schedule>> found;
  for (const TuningRecord& record : records(target).similar(print(kernel))) {
    try {
      Kernel other = parse_kernel(std::make_shared<Source>(Source{"tuning record", record.kernel}));
      double far = distance(kernel, other);
      if (!std::isfinite(far)) continue;
      found.emplace_back(far, resized(parse_schedule(record.schedule), other, kernel));
    } catch (const std::exception&) {  // a record that cannot be read is none
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
  records(target).add({print(kernel), schedule, ns});
}

std::shared_ptr<const Code> KernelCache::trial(const nest::Nest& nest, const Target& target) {
  std::string key = key_of(nest, target);
  {
    std::lock_guard lock(mutex_);
    auto at = entries_.find(key);
    if (at != entries_.end() && at->second->mutex.try_lock()) {
      std::lock_guard entry(at->second->mutex, std::adopt_lock);
      if (at->second->code) return at->second->code;
    }
  }
  if (std::shared_ptr<const Code> code = stored(nest, target, key)) return code;
  ++compiled;
  return backend_.compile(nest, target);
}

std::shared_ptr<const Code> KernelCache::keep(const nest::Nest& nest, const Target& target,
                                              std::shared_ptr<const Code> trial) {
  std::string key = key_of(nest, target);
  std::shared_ptr<Entry> entry = entry_of(key);
  std::lock_guard lock(entry->mutex);
  if (!entry->code) {
    store(key, *trial);
    entry->code = std::move(trial);
  }
  return entry->code;
}

std::shared_ptr<const Code> KernelCache::stored(const nest::Nest& nest, const Target& target,
                                                const std::string& key) {
  if (!disk_ || disk_->mode() == CacheMode::verify) return nullptr;
  std::optional<std::vector<std::byte>> object = disk_->read(key);
  std::shared_ptr<const Code> code = object ? backend_.load(nest, target, *object) : nullptr;
  if (code) ++disk_hits;
  return code;
}

std::shared_ptr<const Code> KernelCache::make(const nest::Nest& nest, const Target& target,
                                              const std::string& key) {
  if (std::shared_ptr<const Code> code = stored(nest, target, key)) return code;
  std::shared_ptr<const Code> code = backend_.compile(nest, target);
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
