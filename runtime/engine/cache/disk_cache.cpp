#include "runtime/engine/cache/disk_cache.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "runtime/engine/records/tuning_records.h"

namespace tile {
namespace {

// An entry: this header, the key text, the payload. The checksum covers everything after itself.
struct Header {
  char magic[8];
  uint64_t checksum;
  uint64_t key_size;
  uint64_t payload_size;
};
constexpr char kMagic[8] = {'T', 'I', 'L', 'E', 'K', '0', '0', '1'};
constexpr size_t kLargestEntry = size_t{1} << 30;
constexpr std::string_view kSuffix = ".tile-kernel";
// A walk of the directory costs as much as many writes: it comes after one write of so many, or
// after this part of the limit was written.
constexpr uint64_t kWritesBetweenWalks = 64;
constexpr size_t kPartsOfLimit = 16;
// A writer takes milliseconds; after an hour its file is nobody's.
constexpr time_t kLeftoverSeconds = 3600;
// Entries used again within a minute keep their time: a read of one costs no write.
constexpr time_t kUsedSeconds = 60;

std::string hex(std::string_view key) {
  XXH128_hash_t h = XXH3_128bits(key.data(), key.size());
  char buffer[33];
  std::snprintf(buffer, sizeof buffer, "%016llx%016llx", static_cast<unsigned long long>(h.high64),
                static_cast<unsigned long long>(h.low64));
  return buffer;
}
std::string name_of(std::string_view key) { return hex(key) + std::string(kSuffix); }

// Whether a file of the directory is the cache's.
bool is_ours(std::string_view name) {
  bool tuning = is_records_file(name) || is_earlier_records_file(name);
  bool rates = name.starts_with("machine-") && name.find(".json") != std::string_view::npos;
  return tuning || rates || name.find(kSuffix) != std::string_view::npos;
}

time_t seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec;
}

// A program that runs with more rights than its user does not take the user's word.
std::string variable(const char* name) {
  const char* value = secure_getenv(name);
  return value == nullptr ? "" : value;
}

bool sizes_fit(const Header& header, size_t size) {
  return std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 && header.key_size <= size &&
         header.payload_size <= size &&
         sizeof header + header.key_size + header.payload_size == size;
}

}  // namespace

std::vector<std::byte> cache_entry(std::string_view key, std::span<const std::byte> payload) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_size = key.size();
  header.payload_size = payload.size();
  std::vector<std::byte> bytes(sizeof header + key.size() + payload.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!key.empty()) std::memcpy(bytes.data() + sizeof header, key.data(), key.size());
  if (!payload.empty()) {
    std::memcpy(bytes.data() + sizeof header + key.size(), payload.data(), payload.size());
  }
  size_t covered = offsetof(Header, key_size);
  uint64_t checksum = XXH3_64bits(bytes.data() + covered, bytes.size() - covered);
  std::memcpy(bytes.data() + offsetof(Header, checksum), &checksum, sizeof checksum);
  return bytes;
}

std::optional<std::vector<std::byte>> cache_payload(std::span<const std::byte> bytes,
                                                    std::string_view key, std::string& why) {
  Header header{};
  if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  size_t covered = offsetof(Header, key_size);
  bool whole = sizes_fit(header, bytes.size()) &&
               XXH3_64bits(bytes.data() + covered, bytes.size() - covered) == header.checksum;
  if (!whole) {
    why = "damaged";
    return std::nullopt;
  }
  const auto* stored = reinterpret_cast<const char*>(bytes.data() + sizeof header);
  if (std::string_view(stored, header.key_size) != key) {
    why = "it is of another key";
    return std::nullopt;
  }
  std::span<const std::byte> payload = bytes.subspan(sizeof header + key.size());
  return std::vector<std::byte>(payload.begin(), payload.end());
}

std::optional<size_t> parse_cache_limit(std::string_view text) {
  size_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  constexpr std::string_view kUnits = "KMG";
  size_t power = unit.empty() ? 0 : kUnits.find(unit.front()) + 1;
  bool known = unit.empty() || (unit.size() == 1 && power != 0);
  if (error != std::errc() || !known || number == 0 || number > SIZE_MAX >> (10 * power)) {
    return std::nullopt;
  }
  return number << (10 * power);
}

std::optional<CacheMode> parse_cache_mode(std::string_view text) {
  if (text == "rw") return CacheMode::read_write;
  if (text == "ro") return CacheMode::read_only;
  if (text == "off") return CacheMode::off;
  if (text == "verify") return CacheMode::verify;
  return std::nullopt;
}

std::optional<size_t> default_cache_limit() {
  std::string text = variable("TILE_CACHE_LIMIT");
  return text.empty() ? kCacheLimit : parse_cache_limit(text);
}

std::string default_cache_directory() {
  if (std::string own = variable("TILE_CACHE_DIR"); !own.empty()) return own;
  if (std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/tile";
  std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/tile";
}

DiskCache::DiskCache(CacheOptions options) : options_(std::move(options)) {
  if (options_.directory.empty()) options_.directory = default_cache_directory();
  std::string why = "no home directory";
  bool make = options_.mode != CacheMode::read_only;
  if (!options_.directory.empty()) {
    directory_ = PrivateDirectory::open(options_.directory, make, why);
  }
  if (!directory_) log("the disk cache is off: " + why);
}

void DiskCache::log(const std::string& message) const {
  if (options_.log) options_.log(message);
}

std::optional<std::vector<std::byte>> DiskCache::read(std::string_view key) const {
  if (!directory_) return std::nullopt;
  std::string name = name_of(key), why;
  auto miss = [&] {
    if (!why.empty()) tell_once(name, why);
    return std::nullopt;
  };
  std::optional<PrivateDirectory::Opened> entry = directory_->open_file(name, why);
  if (!entry) return miss();
  // Looked at first, so that a damaged file is not given memory.
  Header header{};
  std::span<std::byte> head = std::as_writable_bytes(std::span(&header, 1));
  why = "damaged";
  if (entry->size < sizeof header || entry->size > kLargestEntry || !entry->file.read(head) ||
      !sizes_fit(header, entry->size)) {
    return miss();
  }
  std::vector<std::byte> bytes(entry->size);
  std::ranges::copy(head, bytes.begin());
  if (!entry->file.read(std::span(bytes).subspan(sizeof header))) return miss();
  auto payload = cache_payload(bytes, key, why);
  if (!payload) return miss();
  mark_used(*entry);
  return payload;
}

void DiskCache::tell_once(const std::string& name, const std::string& why) const {
  constexpr size_t kMostTold = 1000;
  {
    std::lock_guard lock(mutex_);
    if (told_.size() >= kMostTold || !told_.insert(name).second) return;
  }
  log("cache entry " + directory_->path() + "/" + name + " ignored: " + why);
}

// Which entries were used last is their access time. File systems may not keep it: it is set here.
void DiskCache::mark_used(const PrivateDirectory::Opened& entry) const {
  if (options_.mode == CacheMode::read_only) return;
  if (seconds_now() - entry.used.tv_sec < kUsedSeconds) return;
  const timespec times[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  futimens(entry.file.get(), times);
}

void DiskCache::write(std::string_view key, std::span<const std::byte> payload) const {
  if (!directory_ || options_.mode == CacheMode::read_only) return;
  std::string name = name_of(key), why;
  std::vector<std::byte> bytes = cache_entry(key, payload);
  if (!directory_->replace(name, bytes, why)) {
    // The next ones fail as this one: a full disk, a directory that was removed.
    if (!cannot_write_.exchange(true)) {
      log("cache entry " + directory_->path() + "/" + name + " could not be written: " + why);
    }
    return;
  }
  size_t since = written_ += bytes.size();
  // Of all processes together: short ones write too few to come to a number of their own.
  bool drawn = XXH3_64bits(name.data(), name.size()) % kWritesBetweenWalks == 0;
  if (drawn || since > options_.limit_bytes / kPartsOfLimit) tidy();
}

void DiskCache::tidy() const {
  if (!directory_ || options_.mode == CacheMode::read_only) return;
  written_ = 0;
  std::vector<PrivateDirectory::Entry> entries;
  size_t total = 0;
  time_t now = seconds_now();
  for (PrivateDirectory::Entry& e : directory_->entries()) {
    if (!is_ours(e.name)) continue;
    if (PrivateDirectory::is_leftover(e.name)) {
      if (now - e.written.tv_sec > kLeftoverSeconds) directory_->remove(e.name);
    } else if (e.name.ends_with(kSuffix)) {
      total += e.bytes;
      entries.push_back(std::move(e));
    }
  }
  if (total <= options_.limit_bytes) return;
  std::ranges::sort(entries, [](const auto& a, const auto& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec) < std::tie(b.used.tv_sec, b.used.tv_nsec);
  });
  // To three quarters, so that the next walk finds room.
  for (const PrivateDirectory::Entry& entry : entries) {
    if (total <= options_.limit_bytes / 4 * 3) break;
    if (directory_->remove(entry.name)) total -= entry.bytes;
  }
}

CacheSummary summarize_cache(const PrivateDirectory& directory) {
  CacheSummary summary;
  for (const PrivateDirectory::Entry& e : directory.entries()) {
    if (!is_ours(e.name)) continue;
    ++(PrivateDirectory::is_leftover(e.name) ? summary.leftovers : summary.entries);
    summary.bytes += e.bytes;
  }
  return summary;
}

size_t clear_cache(const PrivateDirectory& directory) {
  size_t removed = 0;
  for (const PrivateDirectory::Entry& e : directory.entries()) {
    removed += is_ours(e.name) && directory.remove(e.name) ? 1 : 0;
  }
  return removed;
}

}  // namespace tile
