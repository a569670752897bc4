#include "runtime/engine/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>

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
constexpr uint64_t kWritesBetweenWalks = 256;

std::string hex(std::string_view key) {
  XXH128_hash_t h = XXH3_128bits(key.data(), key.size());
  char buffer[33];
  std::snprintf(buffer, sizeof buffer, "%016llx%016llx", static_cast<unsigned long long>(h.high64),
                static_cast<unsigned long long>(h.low64));
  return buffer;
}

// Makes the directory and its parents; true if the last one is ours and closed to others.
bool prepare_directory(const std::string& path, std::string& why) {
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at != path.size() && path[at] != '/') continue;
    std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      why = part + ": " + std::strerror(errno);
      return false;
    }
  }
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    why = path + " is not a directory";
    return false;
  }
  if (info.st_uid != geteuid() || (info.st_mode & 0077) != 0) {
    why = path + " belongs to another user or is open to others";
    return false;
  }
  return true;
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

bool read_all(int fd, std::byte* to, size_t size) {
  while (size != 0) {
    ssize_t got = ::read(fd, to, size);
    if (got <= 0) return false;
    to += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}
bool write_all(int fd, const void* from, size_t size) {
  const char* at = static_cast<const char*>(from);
  while (size != 0) {
    ssize_t put = ::write(fd, at, size);
    if (put <= 0) return false;
    at += put;
    size -= static_cast<size_t>(put);
  }
  return true;
}

std::vector<std::byte> entry_bytes(std::string_view key, std::span<const std::byte> payload) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_size = key.size();
  header.payload_size = payload.size();
  std::vector<std::byte> bytes(sizeof header + key.size() + payload.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, key.data(), key.size());
  if (!payload.empty()) {
    std::memcpy(bytes.data() + sizeof header + key.size(), payload.data(), payload.size());
  }
  size_t covered = offsetof(Header, key_size);
  uint64_t checksum = XXH3_64bits(bytes.data() + covered, bytes.size() - covered);
  std::memcpy(bytes.data() + offsetof(Header, checksum), &checksum, sizeof checksum);
  return bytes;
}

// The payload if the bytes are a whole entry for this key; else why not.
std::optional<std::vector<std::byte>> payload_of(const std::vector<std::byte>& bytes,
                                                 std::string_view key, std::string& why) {
  Header header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  size_t covered = offsetof(Header, key_size);
  bool whole = std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 &&
               header.key_size <= bytes.size() && header.payload_size <= bytes.size() &&
               sizeof header + header.key_size + header.payload_size == bytes.size() &&
               XXH3_64bits(bytes.data() + covered, bytes.size() - covered) == header.checksum;
  if (!whole) {
    why = "damaged";
    return std::nullopt;
  }
  const auto* stored = reinterpret_cast<const char*>(bytes.data() + sizeof header);
  if (std::string_view(stored, header.key_size) != key) {
    why = "another key with the same hash";
    return std::nullopt;
  }
  return std::vector<std::byte>(
      bytes.begin() + static_cast<std::ptrdiff_t>(sizeof header + key.size()), bytes.end());
}

template <class Visit>
void each_entry(const std::string& directory, Visit visit) {
  DIR* open = opendir(directory.c_str());
  if (open == nullptr) return;
  while (const dirent* entry = readdir(open)) {
    std::string_view name = entry->d_name;
    bool tuning = name.starts_with("tuning-") && name.ends_with(".jsonl");
    bool rates = name.starts_with("machine-") && name.ends_with(".json");
    if (tuning || rates || name.find(kSuffix) != std::string_view::npos)
      visit(directory + "/" + std::string(name));
  }
  closedir(open);
}

}  // namespace

std::optional<CacheMode> parse_cache_mode(std::string_view text) {
  if (text == "rw") return CacheMode::read_write;
  if (text == "ro") return CacheMode::read_only;
  if (text == "off") return CacheMode::off;
  if (text == "verify") return CacheMode::verify;
  return std::nullopt;
}

std::string default_cache_directory() {
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (std::string own = variable("TILE_CACHE_DIR"); !own.empty()) return own;
  if (std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/tile";
  std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/tile";
}

DiskCache::DiskCache(CacheOptions options) : options_(std::move(options)) {
  if (options_.directory.empty()) options_.directory = default_cache_directory();
  std::string why = "no home directory";
  usable_ = !options_.directory.empty() && prepare_directory(options_.directory, why);
  if (!usable_) log("the disk cache is off: " + why);
}

void DiskCache::log(const std::string& message) const {
  if (options_.log) options_.log(message);
}

std::string DiskCache::path_of(std::string_view key) const {
  return options_.directory + "/" + hex(key) + std::string(kSuffix);
}

std::optional<std::vector<std::byte>> DiskCache::read(std::string_view key) const {
  if (!usable_) return std::nullopt;
  std::string path = path_of(key), why;
  File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info{};
  if (file.get() < 0 || fstat(file.get(), &info) != 0) return std::nullopt;
  auto size = static_cast<size_t>(info.st_size);
  if (size < sizeof(Header) || size > kLargestEntry || !S_ISREG(info.st_mode)) {
    log("cache entry " + path + " ignored: damaged");
    return std::nullopt;
  }
  std::vector<std::byte> bytes(size);
  if (!read_all(file.get(), bytes.data(), size)) {
    log("cache entry " + path + " ignored: it could not be read");
    return std::nullopt;
  }
  auto payload = payload_of(bytes, key, why);
  if (!payload) log("cache entry " + path + " ignored: " + why);
  return payload;
}

void DiskCache::write(std::string_view key, std::span<const std::byte> payload) const {
  if (!usable_ || options_.mode == CacheMode::read_only) return;
  static std::atomic<uint64_t> counter{0};
  std::string path = path_of(key);
  std::string temporary =
      path + "." + std::to_string(getpid()) + "." + std::to_string(counter++) + ".new";
  bool written = false;
  {
    File file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.get() >= 0) {
      std::vector<std::byte> bytes = entry_bytes(key, payload);
      written = write_all(file.get(), bytes.data(), bytes.size());
    }
  }
  if (written && rename(temporary.c_str(), path.c_str()) == 0) {
    // The directory is walked rarely: a walk costs as much as many writes.
    if (counter % kWritesBetweenWalks == kWritesBetweenWalks / 2) keep_below_limit();
    return;
  }
  unlink(temporary.c_str());
  log("cache entry " + path + " could not be written");
}

// Readers leave the access time to the file system, which may not keep it: the time of writing
// decides then.
void DiskCache::keep_below_limit() const {
  struct Old {
    timespec used;
    size_t bytes;
    std::string path;
  };
  std::vector<Old> entries;
  size_t total = 0;
  each_entry(options_.directory, [&](const std::string& path) {
    struct stat info{};
    if (!path.ends_with(kSuffix) || stat(path.c_str(), &info) != 0) return;
    auto later = [](timespec a, timespec b) {
      return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
    };
    timespec used = later(info.st_atim, info.st_mtim) ? info.st_atim : info.st_mtim;
    entries.push_back({used, static_cast<size_t>(info.st_size), path});
    total += entries.back().bytes;
  });
  if (total <= options_.limit_bytes) return;
  std::sort(entries.begin(), entries.end(), [](const Old& a, const Old& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec) < std::tie(b.used.tv_sec, b.used.tv_nsec);
  });
  // To three quarters, so that the next walk finds room.
  for (const Old& entry : entries) {
    if (total <= options_.limit_bytes / 4 * 3) break;
    if (unlink(entry.path.c_str()) == 0) total -= entry.bytes;
  }
}

CacheSummary summarize_cache(const std::string& directory) {
  CacheSummary summary;
  each_entry(directory, [&](const std::string& path) {
    struct stat info{};
    if (stat(path.c_str(), &info) != 0) return;
    ++summary.entries;
    summary.bytes += static_cast<size_t>(info.st_size);
  });
  return summary;
}

size_t clear_cache(const std::string& directory) {
  std::vector<std::string> paths;
  each_entry(directory, [&](const std::string& path) { paths.push_back(path); });
  size_t removed = 0;
  for (const std::string& path : paths) removed += unlink(path.c_str()) == 0 ? 1 : 0;
  return removed;
}

}  // namespace tile
