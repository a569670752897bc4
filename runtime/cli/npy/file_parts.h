// Parts of a file, read and written where they stand.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/cli/files.h"

namespace tile::cli {

// A regular file of which parts are read or written where they stand, by many processes at a time.
// What is no regular file is refused, and opening waits for nobody. Throws Failure as those of
// files.h.
class PartsOfFile {
 public:
  enum class Use { read, change, make };  // make: an empty file, in the place of what it held
  PartsOfFile(const std::string& path, Use use);

  size_t size() const;
  // How many bytes there are, at most as many as asked for.
  size_t read(void* to, size_t bytes, size_t at) const;
  void write(const void* from, size_t bytes, size_t at) const;
  // The bytes behind the end are zeros.
  void resize(size_t bytes) const;
  // Closes it: some file systems tell only then what could not be written.
  void finish();

 private:
  [[noreturn]] void refuse(const std::string& why) const;

  std::string path_;
  Use use_;
  Descriptor file_;
};

}  // namespace tile::cli
