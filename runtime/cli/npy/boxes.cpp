// Boxes of .npy files: many processes read and write their own parts of one file.
#include "runtime/cli/npy/file_parts.h"
#include "runtime/cli/npy/npy.h"

namespace tile::cli {
namespace {

// A header is a line of text; NumPy refuses larger ones too.
constexpr size_t kMostHeader = 1 << 16;

[[noreturn]] void bad(const std::string& path, const std::string& why) {
  fail(Stage::run, "file", {}, path + ": " + why);
}

NpyLayout layout_of(const PartsOfFile& file, const std::string& path) {
  std::string text(kMostHeader, '\0');
  text.resize(file.read(text.data(), text.size(), 0));
  NpyLayout layout = parse_npy_header(text, path);
  if (file.size() < layout.data || file.size() - layout.data < layout.bytes) bad(path, "cut short");
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
  return layout_of(PartsOfFile(path, PartsOfFile::Use::read), path);
}

HostTensor read_npy_box(const std::string& path, const Box& box) {
  PartsOfFile file(path, PartsOfFile::Use::read);
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
  PartsOfFile file(path, PartsOfFile::Use::make);
  std::string header = npy_header(type, shape);
  file.write(header.data(), header.size(), 0);
  size_t bytes = static_cast<size_t>(element_count(shape)) * byte_size(type);
  file.resize(header.size() + bytes);
  file.finish();
}

void write_npy_box(const std::string& path, const Box& box, const HostTensor& part) {
  PartsOfFile file(path, PartsOfFile::Use::change);
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
