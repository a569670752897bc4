#include "runtime/cli/filter_picture.h"

#include <array>

namespace tile::cli {
namespace {

// B, G, R, A of a pixel of 1 (gray), 2 (gray, alpha), 3 (RGB) or 4 (RGBA) channels.
std::array<int64_t, 4> bgra(const HostTensor& picture, int64_t pixel) {
  int64_t channels = picture.shape[2], at = pixel * channels;
  auto channel = [&](int64_t c) { return picture.at(at + c).i; };
  if (channels == 1) return {channel(0), channel(0), channel(0), 255};
  if (channels == 2) return {channel(0), channel(0), channel(0), channel(1)};
  return {channel(2), channel(1), channel(0), channels == 4 ? channel(3) : 255};
}

}  // namespace

HostTensor picture_for_input(HostTensor picture, const std::string& name) {
  bool u8 = name == "input_u8", u16 = name == "input_u16", f32 = name == "input_f32";
  if (!u8 && !u16 && !f32) return picture;
  Shape shape = {picture.shape[0], picture.shape[1]};
  if (!f32) shape.push_back(4);
  HostTensor tensor(f32 ? DType::f32 : u8 ? DType::u8 : DType::u16, shape);
  for (int64_t pixel = 0; pixel < picture.shape[0] * picture.shape[1]; ++pixel) {
    std::array<int64_t, 4> color = bgra(picture, pixel);
    if (f32) {
      double bright = 0.0722 * static_cast<double>(color[0]) +
                      0.7152 * static_cast<double>(color[1]) +
                      0.2126 * static_cast<double>(color[2]);
      tensor.set(pixel, real_scalar(bright / 255, DType::f32));
      continue;
    }
    for (int64_t c = 0; c < 4; ++c) {
      int64_t value = color[static_cast<size_t>(c)] * (u16 ? 257 : 1);
      tensor.set(4 * pixel + c, integer_scalar(value, tensor.type));
    }
  }
  return tensor;
}

HostTensor picture_of_output(HostTensor tensor, const std::string& name) {
  bool colors = (name == "result_u8" || name == "result_u16") && tensor.shape.size() == 3 &&
                tensor.shape[2] == 4;
  if (!colors) return tensor;
  HostTensor picture(DType::u8, tensor.shape);
  constexpr std::array<int64_t, 4> kFrom = {2, 1, 0, 3};
  int64_t scale = tensor.type == DType::u16 ? 257 : 1;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    int64_t value = tensor.at(i - i % 4 + kFrom[static_cast<size_t>(i % 4)]).i;
    picture.set(i, integer_scalar((value + scale / 2) / scale, DType::u8));
  }
  return picture;
}

}  // namespace tile::cli
