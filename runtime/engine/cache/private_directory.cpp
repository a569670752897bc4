#include "runtime/engine/cache/private_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tile {
namespace {

constexpr std::string_view kLeftover = ".new";

std::string error_text() { return std::strerror(errno); }

// Makes the path's missing directories; those that are there may be anything that leads on.
void make_directories(const std::string& path) {
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at == path.size() || path[at] == '/') mkdir(path.substr(0, at).c_str(), 0700);
  }
}

// What is wrong with a directory; empty: nothing.
std::string fault_of(const struct stat& info, const std::string& path) {
  if (!S_ISDIR(info.st_mode)) return path + " is not a directory";
  if (info.st_uid != geteuid()) return path + " belongs to another user";
  if ((info.st_mode & 0077) == 0) return "";
  char mode[8];
  std::snprintf(mode, sizeof mode, "%03o", info.st_mode & 0777U);
  return path + " is open to other users (mode " + mode + "); chmod 700 closes it";
}

bool later(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}
timespec used_time(const struct stat& info) {
  return later(info.st_atim, info.st_mtim) ? info.st_atim : info.st_mtim;
}

// What is wrong with a file; null: nothing.
const char* fault_of(const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return "not a regular file";
  if (info.st_uid != geteuid()) return "of another user";
  return (info.st_mode & 0022) != 0 ? "others may write it" : nullptr;
}

// Different for all writers on all machines that share the directory, but for chance.
std::string temporary_name(const std::string& name) {
  static std::atomic<uint64_t> counter{0};
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return name + "." + std::to_string(getpid()) + "." + std::to_string(counter++) + "." +
         std::to_string(now.tv_sec) + std::to_string(now.tv_nsec) + std::string(kLeftover);
}

constexpr int kFileFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

}  // namespace

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool File::read(std::span<std::byte> to) const {
  while (!to.empty()) {
    ssize_t got = ::read(descriptor_, to.data(), to.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to = to.subspan(static_cast<size_t>(got));
  }
  return true;
}

bool File::write(std::span<const std::byte> from) const {
  while (!from.empty()) {
    ssize_t put = ::write(descriptor_, from.data(), from.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    from = from.subspan(static_cast<size_t>(put));
  }
  return true;
}

std::shared_ptr<const PrivateDirectory> PrivateDirectory::open(const std::string& path, bool make,
                                                               std::string& why) {
  // With a slash at its end the path of a link leads through it.
  std::string plain = path;
  while (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  if (make) make_directories(plain);
  File handle(::open(plain.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info{};
  if (handle.get() < 0 || fstat(handle.get(), &info) != 0) {
    bool other = errno == ENOTDIR || errno == ELOOP;  // a link, a file
    why = other ? plain + " is not a directory" : plain + ": " + error_text();
    return nullptr;
  }
  why = fault_of(info, plain);
  if (!why.empty()) return nullptr;
  return std::shared_ptr<const PrivateDirectory>(
      new PrivateDirectory(plain, std::move(handle), info.st_dev, info.st_ino));
}

bool PrivateDirectory::is_private(std::string& why) const {
  struct stat info{};
  if (fstat(handle_.get(), &info) != 0 || info.st_dev != device_ || info.st_ino != inode_) {
    why = "the handle of " + path_ + " was closed by another part of this process";
    return false;
  }
  why = fault_of(info, path_);
  return why.empty();
}

std::optional<PrivateDirectory::Opened> PrivateDirectory::open_file(const std::string& name,
                                                                    std::string& why) const {
  if (!is_private(why)) return std::nullopt;
  File file(openat(handle_.get(), name.c_str(), O_RDONLY | kFileFlags));
  struct stat info{};
  if (file.get() < 0 || fstat(file.get(), &info) != 0) {
    if (errno != ENOENT) why = errno == ELOOP ? "not a regular file" : error_text();
    return std::nullopt;
  }
  if (const char* fault = fault_of(info)) {
    why = fault;
    return std::nullopt;
  }
  return Opened{std::move(file), static_cast<size_t>(info.st_size), used_time(info)};
}

std::optional<std::vector<std::byte>> PrivateDirectory::read(const std::string& name, size_t most,
                                                             std::string& why) const {
  std::optional<Opened> opened = open_file(name, why);
  if (!opened) return std::nullopt;
  if (opened->size > most) {
    why = "too long";
    return std::nullopt;
  }
  std::vector<std::byte> bytes(opened->size);
  if (opened->file.read(bytes)) return bytes;
  why = "it could not be read";
  return std::nullopt;
}

bool PrivateDirectory::replace(const std::string& name, std::span<const std::byte> bytes,
                               std::string& why) const {
  if (!is_private(why)) return false;
  std::string temporary = temporary_name(name);
  int flags = O_WRONLY | O_CREAT | O_EXCL | kFileFlags;
  File file(openat(handle_.get(), temporary.c_str(), flags, 0600));
  if (file.get() < 0) {
    why = error_text();
    return false;
  }
  auto rename = [&] {
    return renameat(handle_.get(), temporary.c_str(), handle_.get(), name.c_str()) == 0;
  };
  bool done = file.write(bytes) &&
              (rename() || (unlinkat(handle_.get(), name.c_str(), AT_REMOVEDIR) == 0 && rename()));
  if (!done) {
    why = error_text();
    unlinkat(handle_.get(), temporary.c_str(), 0);
  }
  return done;
}

bool PrivateDirectory::append(const std::string& name, std::string_view text,
                              std::string& why) const {
  if (!is_private(why)) return false;
  int flags = O_RDWR | O_CREAT | O_APPEND | kFileFlags;
  File file(openat(handle_.get(), name.c_str(), flags, 0600));
  struct stat info{};
  if (file.get() < 0 || fstat(file.get(), &info) != 0) {
    why = error_text();
    return false;
  }
  if (const char* fault = fault_of(info)) {
    why = fault;
    return false;
  }
  std::string whole;
  char last = '\n';
  if (info.st_size > 0 && pread(file.get(), &last, 1, info.st_size - 1) == 1 && last != '\n') {
    whole = "\n" + std::string(text);
    text = whole;
  }
  if (::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
    return true;
  }
  why = error_text();
  return false;
}

// Written under another name and linked, which fails where there is a file: readers see all of it
// or none. A file system without links opens it exclusively instead.
bool PrivateDirectory::create(const std::string& name, std::string_view text,
                              std::string& why) const {
  if (!is_private(why)) return false;
  std::string temporary = temporary_name(name);
  auto made = [&](const std::string& called) {
    File file(
        openat(handle_.get(), called.c_str(), O_WRONLY | O_CREAT | O_EXCL | kFileFlags, 0600));
    return file.get() >= 0 && file.write(std::as_bytes(std::span(text)));
  };
  bool done = made(temporary);
  if (done) {
    done = linkat(handle_.get(), temporary.c_str(), handle_.get(), name.c_str(), 0) == 0;
    bool no_links = !done && (errno == EPERM || errno == ENOTSUP || errno == ENOSYS);
    if (no_links) done = made(name);
  }
  if (!done && errno != EEXIST) why = error_text();
  unlinkat(handle_.get(), temporary.c_str(), 0);
  return done;
}

bool PrivateDirectory::touch(const std::string& name) const {
  std::string why;
  return is_private(why) && utimensat(handle_.get(), name.c_str(), nullptr, 0) == 0;
}

std::optional<File> PrivateDirectory::try_lock(const std::string& name, std::string& why) const {
  if (!is_private(why)) return std::nullopt;
  File file(openat(handle_.get(), name.c_str(), O_RDWR | O_CREAT | kFileFlags, 0600));
  if (file.get() >= 0 && flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
  if (file.get() < 0 || errno != EWOULDBLOCK) why = error_text();
  return std::nullopt;
}

bool PrivateDirectory::remove(const std::string& name) const {
  std::string why;
  return is_private(why) && unlinkat(handle_.get(), name.c_str(), 0) == 0;
}

std::optional<PrivateDirectory::Entry> PrivateDirectory::entry(const std::string& name) const {
  struct stat info{};
  if (fstatat(handle_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || fault_of(info)) {
    return std::nullopt;
  }
  return Entry{name, static_cast<size_t>(info.st_size), used_time(info), info.st_mtim};
}

std::vector<PrivateDirectory::Entry> PrivateDirectory::entries() const {
  std::vector<Entry> list;
  std::string why;
  int own = is_private(why) ? openat(handle_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  std::unique_ptr<DIR, int (*)(DIR*)> open(own < 0 ? nullptr : fdopendir(own), closedir);
  if (!open) {
    if (own >= 0) close(own);
    return list;
  }
  while (const dirent* found = readdir(open.get())) {
    if (std::optional<Entry> known = entry(found->d_name)) list.push_back(std::move(*known));
  }
  return list;
}

bool PrivateDirectory::is_leftover(std::string_view name) { return name.ends_with(kLeftover); }

}  // namespace tile
