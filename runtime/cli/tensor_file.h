// Tensors from and to files: .npy, PNG and JPEG pictures (u8 [H, W, C]), and generated data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/ir/ranks/box.h"
#include "core/ir/scalar.h"

namespace tile::cli {

// "a.npy", "a.png", "a.jpg", "random:64x64[:f32]" (uniform in [-1, 1), small integers for integer
// types; the same every time for an `input` of the same name), "iota:4x4[:i32]", "ones:4x4",
// "zeros:4x4", "picture:48x64" (colours, u8 [48, 64, 3]). Throws Failure (stage run) with the
// reason.
HostTensor read_tensor(const std::string& specification, std::string_view input = "");
// What a specification that can be read box by box is; nullopt: it is read as a whole.
std::optional<InputType> type_of_boxes(const std::string& specification);
// One box of it.
HostTensor read_box(const std::string& specification, const Box& box, std::string_view input = "");
// Throws Failure (code "argument") where a box has more bytes than this machine's memory.
void require_memory(const std::string& specification, DType type, const Box& box);
// Whether a specification is the name of a picture file, in letters of any case.
bool is_picture(const std::string& specification);
// Whether it is that of a PNG; another picture is a JPEG.
bool is_png(const std::string& path);
// Whether read_tensor gives the pixels of a picture, from a file or drawn.
bool gives_picture(const std::string& specification);
// Throws Failure (code "argument") for what write_tensor does not know.
void require_writable(const std::string& specification);
// "a.npy", a picture (see write_picture), "-" (text).
void write_tensor(const std::string& specification, const HostTensor& tensor);

// "2x3:f32", "2x3" (f32), ":i64" or "scalar" for rank 0.
InputType parse_shape(const std::string& text);

// NumPy's format, version 1.0.
HostTensor read_npy(const std::string& path);
// The same of a file's bytes, which may be anything; `name` is what errors call them. Throws
// Failure (code "file").
HostTensor parse_npy(std::string_view bytes, const std::string& name);
// A small file may say that its picture is of any size: larger ones than `most` bytes are refused.
constexpr int64_t kLargestPicture = int64_t{1} << 29;
HostTensor parse_png(std::string_view bytes, const std::string& name,
                     int64_t most = kLargestPicture);
HostTensor parse_jpeg(std::string_view bytes, const std::string& name,
                      int64_t most = kLargestPicture);
void write_npy(const std::string& path, const HostTensor& tensor);
HostTensor read_picture(const std::string& path);

// Which values of a tensor are black and white in a picture; between them brightness is linear,
// outside it stays at the ends, and NaN is black.
struct PictureRange {
  double low = 0, high = 1;
  bool automatic = false;  // the least and the largest finite value of the tensor
  bool given = false;      // for u8, too, which otherwise is written as it is
  bool named = false;      // for one output
};
// A PNG or, by the suffix .jpg or .jpeg, a JPEG of quality 95, in which there is no alpha. The
// tensor has shape [H, W] or [H, W, 1 to 4].
void write_picture(const std::string& path, const HostTensor& tensor,
                   const PictureRange& range = {});
// Throws Failure (code "file") where a tensor of this shape is no such picture.
void require_picture_shape(const std::string& path, const Shape& shape);
// The part of the values, 0 to 1, that lie outside such a range and are cut off at its ends.
double cut_off(const HostTensor& tensor, const PictureRange& range);
// The bytes of a PNG file; `name` is what errors call it.
std::string png_of(const HostTensor& tensor, const PictureRange& range, const std::string& name);

// Nested brackets as NumPy prints them, large tensors abridged.
std::string to_text(const HostTensor& tensor);

}  // namespace tile::cli
