// Pictures: PNG through libpng's simplified interface, JPEG through libjpeg.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>

// jpeglib.h needs size_t and FILE declared before it.
#include <jpeglib.h>

#include "runtime/cli/tensor_file.h"

namespace tile::cli {
namespace {

[[noreturn]] void bad(const std::string& path, const std::string& why) {
  fail(Stage::run, "file", {}, path + ": " + why);
}

HostTensor read_png(const std::string& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&image, path.c_str()) == 0) bad(path, image.message);
  image.format &= PNG_FORMAT_FLAG_ALPHA | PNG_FORMAT_FLAG_COLOR;  // 8 bits, RGB order
  auto channels = static_cast<int64_t>(PNG_IMAGE_SAMPLE_CHANNELS(image.format));
  HostTensor t(DType::u8, {image.height, image.width, channels});
  if (png_image_finish_read(&image, nullptr, t.bytes.data(), 0, nullptr) == 0) {
    bad(path, image.message);
  }
  return t;
}

// libjpeg reports errors by a callback that must not return.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};
void on_jpeg_error(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  (*info->err->format_message)(info, errors->message);
  std::longjmp(errors->back, 1);
}
void on_jpeg_message(j_common_ptr) {}

// No object with a destructor is created between setjmp and longjmp: `bytes` belongs to the caller.
bool decode_jpeg(std::FILE* file, JpegErrors& errors, std::vector<std::byte>& bytes, Shape& shape) {
  jpeg_decompress_struct info;
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = on_jpeg_error;
  errors.manager.output_message = on_jpeg_message;
  jpeg_create_decompress(&info);
  if (setjmp(errors.back) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_stdio_src(&info, file);
  jpeg_read_header(&info, TRUE);
  info.out_color_space = info.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&info);
  shape = {info.output_height, info.output_width, info.output_components};
  size_t row = static_cast<size_t>(info.output_width) * static_cast<size_t>(info.output_components);
  bytes.resize(row * info.output_height);
  while (info.output_scanline < info.output_height) {
    auto* line = reinterpret_cast<JSAMPROW>(bytes.data() + row * info.output_scanline);
    jpeg_read_scanlines(&info, &line, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return true;
}

HostTensor read_jpeg(const std::string& path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) bad(path, "cannot be read");
  JpegErrors errors{};
  HostTensor t;
  t.type = DType::u8;
  if (!decode_jpeg(file.get(), errors, t.bytes, t.shape)) bad(path, errors.message);
  return t;
}

// Values of other types are taken as [0, 1].
HostTensor as_bytes(const HostTensor& t) {
  if (t.type == DType::u8) return t;
  HostTensor bytes(DType::u8, t.shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    Scalar v = convert(t.at(i), DType::f64);
    bytes.set(i, real_scalar(std::clamp(v.f, 0.0, 1.0) * 255 + 0.5, DType::u8));
  }
  return bytes;
}

}  // namespace

HostTensor read_picture(const std::string& path) {
  return std::string_view(path).ends_with(".png") ? read_png(path) : read_jpeg(path);
}

void write_png(const std::string& path, const HostTensor& tensor) {
  size_t rank = tensor.shape.size();
  int64_t channels = rank == 3 ? tensor.shape[2] : 1;
  constexpr png_uint_32 kFormats[] = {0, PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                      PNG_FORMAT_RGBA};
  if (rank < 2 || rank > 3 || channels < 1 || channels > 4) {
    bad(path, "a picture has shape [H, W] or [H, W, 1 to 4]");
  }
  HostTensor bytes = as_bytes(tensor);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(tensor.shape[0]);
  image.width = static_cast<png_uint_32>(tensor.shape[1]);
  image.format = kFormats[channels];
  int written = png_image_write_to_file(&image, path.c_str(), 0, bytes.bytes.data(), 0, nullptr);
  if (written == 0) bad(path, image.message);
}

}  // namespace tile::cli
