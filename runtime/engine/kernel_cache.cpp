#include "runtime/engine/kernel_cache.h"

#include <algorithm>
#include <span>

#include "runtime/engine/disk_cache.h"

namespace tile {

// Whoever creates the entry makes the code under the entry's own lock; others wait there.
struct KernelCache::Entry {
  std::mutex mutex;
  std::shared_ptr<const Code> code;
};

KernelCache::KernelCache(Backend& backend, std::unique_ptr<DiskCache> disk)
    : backend_(backend), disk_(std::move(disk)) {}
KernelCache::~KernelCache() = default;

std::shared_ptr<const Code> KernelCache::get(const nest::Nest& nest, const Target& target) {
  std::string key = backend_.identity() + "\n" + to_string(target) + "\n" + print(nest, true);
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Entry>& slot = entries_[key];
    if (!slot) slot = std::make_shared<Entry>();
    entry = slot;
  }
  std::lock_guard lock(entry->mutex);
  if (entry->code) {
    ++hits;
  } else {
    entry->code = make(nest, target, key);
  }
  return entry->code;
}

namespace {

std::string schedule_key(const Backend& backend, const Kernel& kernel, const Target& target) {
  return "schedule\n" + backend.identity() + "\n" + to_string(target) + "\n" + print(kernel);
}

}  // namespace

std::optional<std::string> KernelCache::tuned_schedule(const Kernel& kernel, const Target& target) {
  std::string key = schedule_key(backend_, kernel, target);
  std::lock_guard lock(mutex_);
  auto [it, added] = schedules_.try_emplace(key);
  if (!added || !disk_) return it->second;
  if (auto stored = disk_->read(key)) {
    it->second = std::string(reinterpret_cast<const char*>(stored->data()), stored->size());
  }
  return it->second;
}

void KernelCache::remember_schedule(const Kernel& kernel, const Target& target,
                                    const std::string& schedule) {
  std::string key = schedule_key(backend_, kernel, target);
  std::lock_guard lock(mutex_);
  schedules_[key] = schedule;
  if (disk_) disk_->write(key, std::as_bytes(std::span(schedule.data(), schedule.size())));
}

std::shared_ptr<const Code> KernelCache::make(const nest::Nest& nest, const Target& target,
                                              const std::string& key) {
  std::optional<std::vector<std::byte>> stored;
  if (disk_) stored = disk_->read(key);
  bool verify = disk_ && disk_->mode() == CacheMode::verify;
  if (stored && !verify) {
    if (std::shared_ptr<const Code> code = backend_.load(nest, target, *stored)) {
      ++disk_hits;
      return code;
    }
  }
  std::shared_ptr<const Code> code = backend_.compile(nest, target);
  ++compiled;
  if (!disk_) return code;
  if (stored && verify && !std::ranges::equal(*stored, code->object())) {
    throw InternalError("the disk cache holds another object for the same kernel");
  }
  disk_->write(key, code->object());
  return code;
}

}  // namespace tile
