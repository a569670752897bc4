// What stands in a .npy file, and boxes of it.
#pragma once

#include <string>
#include <string_view>

#include "core/ir/ranks/box.h"
#include "core/ir/scalar.h"

namespace tile::cli {

struct NpyLayout {
  DType type = DType::f32;
  Shape shape;
  bool columns = false;  // the first dimension varies fastest
  size_t data = 0;       // the byte of the file where the elements begin
  size_t bytes = 0;      // of all elements
};

// `text` begins as the file and has its header. Throws Failure (code "file").
NpyLayout parse_npy_header(std::string_view text, const std::string& path);
// What stands in front of the elements of a tensor that is stored row by row.
std::string npy_header(DType type, const Shape& shape);
// Column-major elements to row-major.
HostTensor transposed(const HostTensor& stored);

// The same of a file, of which the header alone is read. Throws Failure (code "file").
NpyLayout read_npy_layout(const std::string& path);
// The cells of a box, of whose rows nothing else is read.
HostTensor read_npy_box(const std::string& path, const Box& box);
// A file for a tensor of zeros, in the place of what was there.
void create_npy(const std::string& path, DType type, const Shape& shape);
// Writes a box of a tensor to the file made for it.
void write_npy_box(const std::string& path, const Box& box, const HostTensor& part);

}  // namespace tile::cli
