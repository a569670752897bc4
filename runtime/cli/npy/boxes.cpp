// Boxes of .npy files: many processes read and write their own parts of one file.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/cli/npy/npy.h"

namespace tile::cli {
namespace {

// A header is a line of text; NumPy refuses larger ones too.
constexpr size_t kMostHeader = 1 << 16;

[[noreturn]] void bad(const std::string& path, const std::string& why) {
  fail(Stage::run, "file", {}, path + ": " + why);
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : path_(path), descriptor_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) bad(path, std::strerror(errno));
  }
  ~Descriptor() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }

  // How many bytes there are, at most as many as asked for.
  size_t read(void* to, size_t bytes, size_t at) const {
    size_t done = 0;
    while (done < bytes) {
      ssize_t got = pread(descriptor_, static_cast<char*>(to) + done, bytes - done,
                          static_cast<off_t>(at + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) bad(path_, std::strerror(errno));
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }
  void write(const void* from, size_t bytes, size_t at) const {
    size_t done = 0;
    while (done < bytes) {
      ssize_t put = pwrite(descriptor_, static_cast<const char*>(from) + done, bytes - done,
                           static_cast<off_t>(at + done));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) bad(path_, put == 0 ? "cannot be written" : std::strerror(errno));
      done += static_cast<size_t>(put);
    }
  }
  // Closes it: some file systems tell only then what could not be written.
  void finish() {
    if (close(std::exchange(descriptor_, -1)) != 0) bad(path_, std::strerror(errno));
  }

 private:
  const std::string& path_;
  int descriptor_;
};

NpyLayout layout_of(const Descriptor& file, const std::string& path) {
  std::string text(kMostHeader, '\0');
  text.resize(file.read(text.data(), text.size(), 0));
  NpyLayout layout = parse_npy_header(text, path);
  struct stat info{};
  if (fstat(file.get(), &info) != 0) bad(path, std::strerror(errno));
  bool whole = static_cast<size_t>(info.st_size) >= layout.data + layout.bytes;
  if (S_ISREG(info.st_mode) && !whole) bad(path, "cut short");
  return layout;
}

// Calls visit(cell, cells) for each run of cells that stand side by side in the tensor, in order.
template <class Visit>
void for_each_run(const Shape& shape, const Box& box, const Visit& visit) {
  if (box.empty()) return;
  size_t outer = shape.size();  // dimensions in front of a run
  size_t cells = 1;
  for (bool whole = true; outer > 0 && whole; --outer) {
    size_t d = outer - 1;
    cells *= static_cast<size_t>(box.hi[d] - box.lo[d]);
    whole = box.lo[d] == 0 && box.hi[d] == shape[d];
  }
  std::vector<int64_t> at = box.lo;
  while (true) {
    size_t cell = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      cell = cell * static_cast<size_t>(shape[d]) + static_cast<size_t>(at[d]);
    }
    visit(cell, cells);
    size_t d = outer;
    for (; d > 0 && ++at[d - 1] == box.hi[d - 1]; --d) at[d - 1] = box.lo[d - 1];
    if (d == 0) return;
  }
}

template <class T>
std::vector<T> reversed(const std::vector<T>& list) {
  return {list.rbegin(), list.rend()};
}

}  // namespace

NpyLayout read_npy_layout(const std::string& path) {
  return layout_of(Descriptor(path, O_RDONLY), path);
}

HostTensor read_npy_box(const std::string& path, const Box& box) {
  Descriptor file(path, O_RDONLY);
  NpyLayout layout = layout_of(file, path);
  bool columns = layout.columns;
  Box stored = columns ? Box{reversed(box.lo), reversed(box.hi)} : box;
  Shape shape = columns ? reversed(layout.shape) : layout.shape;
  if (!contains(whole_box(shape), stored)) bad(path, "has another shape than before");
  // transposed() takes the extents as they will be.
  HostTensor part(layout.type, box.shape());
  size_t width = byte_size(layout.type);
  std::byte* to = part.bytes.data();
  for_each_run(shape, stored, [&](size_t cell, size_t cells) {
    if (file.read(to, cells * width, layout.data + cell * width) != cells * width) {
      bad(path, "cut short");
    }
    to += cells * width;
  });
  return columns ? transposed(part) : part;
}

void create_npy(const std::string& path, DType type, const Shape& shape) {
  Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC);
  std::string header = npy_header(type, shape);
  file.write(header.data(), header.size(), 0);
  size_t bytes = static_cast<size_t>(element_count(shape)) * byte_size(type);
  if (ftruncate(file.get(), static_cast<off_t>(header.size() + bytes)) != 0) {
    bad(path, std::strerror(errno));
  }
  file.finish();
}

void write_npy_box(const std::string& path, const Box& box, const HostTensor& part) {
  Descriptor file(path, O_RDWR);
  NpyLayout layout = layout_of(file, path);
  if (!contains(whole_box(layout.shape), box)) bad(path, "has another shape than before");
  size_t width = byte_size(layout.type);
  const std::byte* from = part.bytes.data();
  for_each_run(layout.shape, box, [&](size_t cell, size_t cells) {
    file.write(from, cells * width, layout.data + cell * width);
    from += cells * width;
  });
  file.finish();
}

}  // namespace tile::cli
