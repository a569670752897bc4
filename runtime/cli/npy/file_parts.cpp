#include "runtime/cli/npy/file_parts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/support/diagnostic.h"

namespace tile::cli {
namespace {

int flags_of(PartsOfFile::Use use) {
  if (use == PartsOfFile::Use::read) return kOpenFlags | O_RDONLY;
  return kOpenFlags | O_RDWR | (use == PartsOfFile::Use::make ? O_CREAT : 0);
}

}  // namespace

// What the file is, is known before anything is changed in it.
PartsOfFile::PartsOfFile(const std::string& path, Use use)
    : path_(path), use_(use), file_(open(path.c_str(), flags_of(use), 0666)) {
  if (!file_.is_open()) refuse(errno == EISDIR ? "it is a directory" : errno_text());
  struct stat info{};
  if (fstat(file_.get(), &info) != 0) refuse(errno_text());
  if (S_ISDIR(info.st_mode)) refuse("it is a directory");
  if (!S_ISREG(info.st_mode)) refuse("it is no regular file, in which ranks find their boxes");
  if (use == Use::make) resize(0);
}

size_t PartsOfFile::size() const {
  struct stat info{};
  if (fstat(file_.get(), &info) != 0) refuse(errno_text());
  return static_cast<size_t>(info.st_size);
}

size_t PartsOfFile::read(void* to, size_t bytes, size_t at) const {
  size_t done = 0;
  while (done < bytes) {
    ssize_t got = pread(file_.get(), static_cast<char*>(to) + done, bytes - done,
                        static_cast<off_t>(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(errno_text());
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

void PartsOfFile::write(const void* from, size_t bytes, size_t at) const {
  size_t done = 0;
  while (done < bytes) {
    ssize_t put = pwrite(file_.get(), static_cast<const char*>(from) + done, bytes - done,
                         static_cast<off_t>(at + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) refuse(errno_text());
    done += static_cast<size_t>(put);
  }
}

void PartsOfFile::resize(size_t bytes) const {
  if (ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0) refuse(errno_text());
}

void PartsOfFile::finish() {
  if (!file_.is_closed_well()) refuse(errno_text());
}

void PartsOfFile::refuse(const std::string& why) const {
  bool reads = use_ == Use::read;
  fail(Stage::run, reads ? "argument" : "file", {},
       (reads ? "cannot read " : "cannot write ") + path_ + ": " + why);
}

}  // namespace tile::cli
