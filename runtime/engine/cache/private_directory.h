// A directory that only its owner can enter, held by a handle: what happens to its path afterwards
// does not matter, and files are opened relative to the handle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tile {

// A file descriptor that is closed at the end.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File();
  File(File&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  File& operator=(File&&) = delete;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }
  // Whether all bytes came, or went.
  bool read(std::span<std::byte> to) const;
  bool write(std::span<const std::byte> from) const;

 private:
  int descriptor_;
};

// Thread safe. Where a call fails, `why` says for people what was wrong.
class PrivateDirectory {
 public:
  // Null unless the path is a directory (not a link to one) of this user that is closed to all
  // others. `make`: it and its parents are made where they are missing.
  static std::shared_ptr<const PrivateDirectory> open(const std::string& path, bool make,
                                                      std::string& why);

  const std::string& path() const { return path_; }

  struct Opened {
    File file;
    size_t size = 0;
    timespec used{};  // last read or written
  };
  // Regular files of this user that no other can write. nullopt with an empty `why`: there is none.
  std::optional<Opened> open_file(const std::string& name, std::string& why) const;
  // The same file's bytes, at most `most`.
  std::optional<std::vector<std::byte>> read(const std::string& name, size_t most,
                                             std::string& why) const;
  // As a whole: readers see the file before or after. A writer that is killed leaves a file whose
  // name is_leftover() knows.
  bool replace(const std::string& name, std::span<const std::byte> bytes, std::string& why) const;
  // At the end of a file, in one write. Behind a line that a killed writer left unfinished the text
  // begins a line of its own.
  bool append(const std::string& name, std::string_view text, std::string& why) const;
  // As a whole where there is none of that name yet: of several processes one succeeds. False with
  // an empty `why`: there is one.
  bool create(const std::string& name, std::string_view text, std::string& why) const;
  // Sets the time when it was written to now, by the clock of whoever keeps the files.
  bool touch(const std::string& name) const;
  // A file, made where it is missing, that is locked while the result lives, by one of the
  // processes of this machine; nullopt: another one has it, or the file system knows no locks and
  // `why` says so.
  std::optional<File> try_lock(const std::string& name, std::string& why) const;
  bool remove(const std::string& name) const;

  struct Entry {
    std::string name;
    size_t bytes = 0;
    timespec used{};  // last read or written
    timespec written{};
  };
  // Of one file; nullopt for what is no regular file of this user.
  std::optional<Entry> entry(const std::string& name) const;
  std::vector<Entry> entries() const;
  static bool is_leftover(std::string_view name);

 private:
  PrivateDirectory(std::string path, File handle, uint64_t device, uint64_t inode)
      : path_(std::move(path)), handle_(std::move(handle)), device_(device), inode_(inode) {}
  // Whether the handle is still that of the directory that was opened, and closed to others: a host
  // may close descriptors that are not its own, and owners change modes.
  bool is_private(std::string& why) const;
  std::string path_;
  File handle_;
  uint64_t device_, inode_;
};

}  // namespace tile
