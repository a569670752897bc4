#include "runtime/cli/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/support/diagnostic.h"
#include "runtime/engine/launch/memory_plan.h"

namespace tile::cli {
namespace {

[[noreturn]] void cannot_read(const std::string& path, const std::string& why) {
  fail(Stage::run, "argument", {}, "cannot read " + path + ": " + why);
}
[[noreturn]] void cannot_write(const std::string& path, const std::string& why) {
  fail(Stage::run, "file", {}, "cannot write " + path + ": " + why);
}

constexpr size_t kMostOfDevice = size_t{1} << 28;

void let_wait(int file) { fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK); }

std::string read_all(int file, const std::string& path, size_t most) {
  struct stat info{};
  if (fstat(file, &info) != 0) cannot_read(path, errno_text());
  if (S_ISDIR(info.st_mode)) cannot_read(path, "it is a directory");
  most = std::min(most, S_ISREG(info.st_mode) ? machine_memory() : kMostOfDevice);
  bool long_file = S_ISREG(info.st_mode) && static_cast<size_t>(info.st_size) > most;
  if (long_file) cannot_read(path, "it has more than " + std::to_string(most) + " bytes");
  std::string text;
  std::vector<char> part(1 << 16);
  for (;;) {
    ssize_t got = read(file, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) {
      let_wait(file);
      continue;
    }
    if (got < 0) cannot_read(path, errno_text());
    if (got == 0 && text.empty() && S_ISFIFO(info.st_mode)) {
      cannot_read(path, "it is a pipe that nobody writes to");
    }
    if (got == 0) return text;
    if (static_cast<size_t>(got) > most - text.size()) {
      cannot_read(path, "it has more than " + std::to_string(most) + " bytes");
    }
    text.append(part.data(), static_cast<size_t>(got));
  }
}

using Parts = std::span<const std::string_view>;

bool put_all(int file, Parts parts) {
  for (std::string_view text : parts) {
    while (!text.empty()) {
      ssize_t put = write(file, text.data(), text.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return false;
      text.remove_prefix(static_cast<size_t>(put));
    }
  }
  return true;
}

// Into a file, or what is none, as it stands there.
void write_in_place(const std::string& path, Parts parts, int flags) {
  Descriptor file(open(path.c_str(), O_WRONLY | kOpenFlags | flags, 0666));
  if (!file.is_open()) {
    cannot_write(path, errno == ENXIO ? "it is a pipe that nobody reads" : errno_text());
  }
  let_wait(file.get());
  if (!put_all(file.get(), parts) || !file.is_closed_well()) cannot_write(path, errno_text());
}

// Beside the file under a name that nobody has, then in its place.
bool replaced(const std::string& path, mode_t mode, Parts parts) {
  std::string other = path + ".XXXXXX";
  Descriptor file(mkostemp(other.data(), O_CLOEXEC));
  if (!file.is_open()) return false;
  bool done = fchmod(file.get(), mode) == 0 && put_all(file.get(), parts) &&
              file.is_closed_well() && rename(other.c_str(), path.c_str()) == 0;
  int fault = errno;
  if (!done) unlink(other.c_str());
  errno = fault;
  return done;
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

bool Descriptor::is_closed_well() { return close(std::exchange(number_, -1)) == 0; }

std::string errno_text() { return std::strerror(errno); }

std::string read_text(const std::string& path, size_t most) {
  Descriptor file(open(path.c_str(), O_RDONLY | kOpenFlags));
  if (!file.is_open()) cannot_read(path, errno_text());
  return read_all(file.get(), path, most);
}

std::string read_standard_input(size_t most) {
  return read_all(STDIN_FILENO, "standard input", most);
}

void require_place(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) cannot_write(path, std::strerror(EISDIR));
    return;
  }
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  if (stat(folder.c_str(), &info) != 0) cannot_write(path, errno_text());
  if (!S_ISDIR(info.st_mode)) cannot_write(path, std::strerror(ENOTDIR));
  if (access(folder.c_str(), W_OK) != 0) cannot_write(path, errno_text());
}

void write_text(const std::string& path, std::string_view text) {
  write_parts(path, std::span(&text, 1));
}

void write_parts(const std::string& path, Parts parts) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return write_in_place(path, parts, O_CREAT | O_TRUNC);
  }
  std::error_code error;
  std::string target = std::filesystem::canonical(path, error).string();
  constexpr mode_t kMode = 07777;
  if (!error && replaced(target, info.st_mode & kMode, parts)) return;
  // A directory that may not be changed may hold a file that may.
  bool forbidden = !error && (errno == EACCES || errno == EPERM || errno == EROFS);
  if (!forbidden) cannot_write(path, error ? error.message() : errno_text());
  write_in_place(path, parts, O_TRUNC);
}

void write_new_text(const std::string& path, std::string_view text) {
  write_in_place(path, std::span(&text, 1), O_CREAT | O_EXCL);
}

}  // namespace tile::cli
