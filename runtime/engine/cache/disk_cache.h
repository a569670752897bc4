// The disk cache: one self-contained, checksummed file per entry in a directory that only its owner
// can enter. Any fault is a miss and one log line.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/cache/private_directory.h"

namespace tile {

enum class CacheMode : uint8_t { off, read_only, read_write, verify };

constexpr size_t kCacheLimit = size_t{1} << 30;  // bytes, where nothing else is asked for

struct CacheOptions {
  std::string directory;  // empty: TILE_CACHE_DIR, else $XDG_CACHE_HOME/tile, else ~/.cache/tile
  CacheMode mode = CacheMode::read_write;
  size_t limit_bytes = kCacheLimit;  // beyond it the entries unused for longest are removed
  std::function<void(const std::string&)> log;
};

// "rw", "ro", "off", "verify"; nullopt otherwise.
std::optional<CacheMode> parse_cache_mode(std::string_view text);
// Bytes, or with K, M or G behind them 2^10, 2^20 or 2^30 times as many; nullopt otherwise, and for
// zero.
std::optional<size_t> parse_cache_limit(std::string_view text);
std::string default_cache_directory();
// TILE_CACHE_LIMIT, else kCacheLimit; nullopt where the variable says something else.
std::optional<size_t> default_cache_limit();

class DiskCache {
 public:
  explicit DiskCache(CacheOptions options);

  CacheMode mode() const { return options_.mode; }
  // Null where there is no directory that can be used; the log was told why.
  const std::shared_ptr<const PrivateDirectory>& directory() const { return directory_; }
  void log(const std::string& message) const;
  // The payload stored under exactly this key text; nullopt: a miss.
  std::optional<std::vector<std::byte>> read(std::string_view key) const;
  void write(std::string_view key, std::span<const std::byte> payload) const;
  // Removes what killed writers left, and beyond the limit the entries unused for longest. Writers
  // do it now and then.
  void tidy() const;

 private:
  // One line for an entry, however often it is looked for.
  void tell_once(const std::string& name, const std::string& why) const;
  void mark_used(const PrivateDirectory::Opened& entry) const;
  CacheOptions options_;
  std::shared_ptr<const PrivateDirectory> directory_;
  mutable std::atomic<size_t> written_{0};  // bytes since tidy()
  mutable std::atomic<bool> cannot_write_{false};
  mutable std::mutex mutex_;
  mutable std::set<std::string> told_;  // names of entries that the log knows as faulty
};

// An entry's bytes, and back: the payload if they are a whole entry for this key; else why not.
std::vector<std::byte> cache_entry(std::string_view key, std::span<const std::byte> payload);
std::optional<std::vector<std::byte>> cache_payload(std::span<const std::byte> entry,
                                                    std::string_view key, std::string& why);

// For `tile cache`: entries, tuning records too, and their bytes, and removing them all.
struct CacheSummary {
  size_t entries = 0;
  size_t bytes = 0;
  size_t leftovers = 0;  // files of killed writers
};
CacheSummary summarize_cache(const PrivateDirectory& directory);
size_t clear_cache(const PrivateDirectory& directory);  // files removed, leftovers too

}  // namespace tile
