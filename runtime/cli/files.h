// Files that a user names, which may be anything: a folder, a pipe, a device without an end.
#pragma once

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tile::cli {

// Owns a descriptor of the system's; negative: of nothing.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  // Closes it. Whether all that was written is there: a full disk may tell only now.
  bool is_closed_well();

 private:
  int number_;
};
// Opening waits for nobody: not for the other end of a pipe.
constexpr int kOpenFlags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
// What the system says of the call that failed last.
std::string errno_text();

// All bytes of a file, at most `most`, and as many as the machine has memory; of what is no file,
// such as a device, 256 MiB in any case. A pipe is read to its end, which is waited for as long as
// somebody has it open for writing. Throws Failure (run, "argument"): "cannot read NAME: " and why
// not.
std::string read_text(const std::string& path, size_t most = SIZE_MAX);
// The same of standard input.
std::string read_standard_input(size_t most);

// Throws what write_text would where a file of this name cannot be made or replaced, as far as that
// is known without doing it: its folder is not there, or it is a folder itself.
void require_place(const std::string& path);
// Writes a file as a whole: who reads it meanwhile, or a disk that is full, sees the old text or
// the new one. A link stays one, a file keeps its mode; what is no file (a device, a pipe) is just
// written. Throws Failure (run, "file"): "cannot write NAME: " and why not.
void write_text(const std::string& path, std::string_view text);
// The same of a text in parts, one behind the other.
void write_parts(const std::string& path, std::span<const std::string_view> parts);
// The same of a file that is not there yet; one that is, is left alone.
void write_new_text(const std::string& path, std::string_view text);

}  // namespace tile::cli
