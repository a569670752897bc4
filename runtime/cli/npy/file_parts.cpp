#include "runtime/cli/npy/file_parts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/support/diagnostic.h"

namespace tile::cli {
namespace {

std::string error_text() { return std::strerror(errno); }

int flags_of(PartsOfFile::Use use) {
  // Opening waits for nobody: not for the other end of a pipe.
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  if (use == PartsOfFile::Use::read) return kFlags | O_RDONLY;
  return kFlags | O_RDWR | (use == PartsOfFile::Use::make ? O_CREAT : 0);
}

}  // namespace

// What the file is, is known before anything is changed in it.
PartsOfFile::PartsOfFile(const std::string& path, Use use)
    : path_(path), use_(use), descriptor_(open(path.c_str(), flags_of(use), 0666)) {
  if (descriptor_ < 0) refuse(errno == EISDIR ? "it is a directory" : error_text());
  struct stat info{};
  std::string why;
  if (fstat(descriptor_, &info) != 0) {
    why = error_text();
  } else if (S_ISDIR(info.st_mode)) {
    why = "it is a directory";
  } else if (!S_ISREG(info.st_mode)) {
    why = "it is no regular file, in which ranks find their boxes";
  } else if (use == Use::make && ftruncate(descriptor_, 0) != 0) {
    why = error_text();
  }
  if (why.empty()) return;
  close(descriptor_);
  refuse(why);
}

PartsOfFile::~PartsOfFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

size_t PartsOfFile::size() const {
  struct stat info{};
  if (fstat(descriptor_, &info) != 0) refuse(error_text());
  return static_cast<size_t>(info.st_size);
}

size_t PartsOfFile::read(void* to, size_t bytes, size_t at) const {
  size_t done = 0;
  while (done < bytes) {
    ssize_t got = pread(descriptor_, static_cast<char*>(to) + done, bytes - done,
                        static_cast<off_t>(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(error_text());
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

void PartsOfFile::write(const void* from, size_t bytes, size_t at) const {
  size_t done = 0;
  while (done < bytes) {
    ssize_t put = pwrite(descriptor_, static_cast<const char*>(from) + done, bytes - done,
                         static_cast<off_t>(at + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) refuse(error_text());
    done += static_cast<size_t>(put);
  }
}

void PartsOfFile::resize(size_t bytes) const {
  if (ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) refuse(error_text());
}

void PartsOfFile::finish() {
  if (close(std::exchange(descriptor_, -1)) != 0) refuse(error_text());
}

void PartsOfFile::refuse(const std::string& why) const {
  bool reads = use_ == Use::read;
  fail(Stage::run, reads ? "argument" : "file", {},
       (reads ? "cannot read " : "cannot write ") + path_ + ": " + why);
}

}  // namespace tile::cli
