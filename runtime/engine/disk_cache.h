// The disk cache: one self-contained, checksummed file per entry in a directory that only its owner
// can enter. Any fault is a miss and one log line.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tile {

enum class CacheMode : uint8_t { off, read_only, read_write, verify };

struct CacheOptions {
  std::string directory;  // empty: TILE_CACHE_DIR, else $XDG_CACHE_HOME/tile, else ~/.cache/tile
  CacheMode mode = CacheMode::read_write;
  size_t limit_bytes = size_t{1} << 30;  // beyond it the entries unused for longest are removed
  std::function<void(const std::string&)> log;
};

// "rw", "ro", "off", "verify"; nullopt otherwise.
std::optional<CacheMode> parse_cache_mode(std::string_view text);
std::string default_cache_directory();

class DiskCache {
 public:
  explicit DiskCache(CacheOptions options);

  CacheMode mode() const { return options_.mode; }
  // Empty where there is no directory that can be used.
  std::string directory() const { return usable_ ? options_.directory : ""; }
  void log(const std::string& message) const;
  // The payload stored under exactly this key text; nullopt: a miss.
  std::optional<std::vector<std::byte>> read(std::string_view key) const;
  // Written to a temporary name in the same directory and renamed.
  void write(std::string_view key, std::span<const std::byte> payload) const;

 private:
  std::string path_of(std::string_view key) const;
  void keep_below_limit() const;
  CacheOptions options_;
  bool usable_ = false;  // the directory exists, is a directory of ours with mode 0700
};

// For `tile cache`: entries, tuning records too, and their bytes, and removing them all.
struct CacheSummary {
  size_t entries = 0;
  size_t bytes = 0;
};
CacheSummary summarize_cache(const std::string& directory);
size_t clear_cache(const std::string& directory);  // files removed

}  // namespace tile
