// Pictures to files: PNG through libpng's simplified interface, JPEG through libjpeg.
#include <png.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>

// jpeglib.h needs size_t and FILE declared before it.
#include <jpeglib.h>

#include "runtime/cli/files.h"
#include "runtime/cli/tensor_file.h"

namespace tile::cli {
namespace {

constexpr int kQuality = 95;  // of 100: artefacts are hardly seen, at a third of a PNG's bytes

[[noreturn]] void bad(const std::string& path, const std::string& why) {
  fail(Stage::run, "file", {}, path + ": " + why);
}

int64_t channels_of(const Shape& shape, const std::string& name) {
  size_t rank = shape.size();
  int64_t channels = rank == 3 ? shape[2] : 1;
  if (rank < 2 || rank > 3 || channels < 1 || channels > 4) {
    bad(name, "a picture has shape [H, W] or [H, W, 1 to 4]");
  }
  if (element_count(shape) == 0) bad(name, "a picture has at least one pixel");
  return channels;
}

// The same of a JPEG, which is smaller.
int64_t channels_of_jpeg(const Shape& shape, const std::string& name) {
  int64_t channels = channels_of(shape, name);
  if (std::max(shape[0], shape[1]) > JPEG_MAX_DIMENSION) {
    bad(name, "a JPEG has at most " + std::to_string(JPEG_MAX_DIMENSION) + " rows and columns");
  }
  return channels;
}

PictureRange found_range(const HostTensor& t) {
  PictureRange range{INFINITY, -INFINITY};
  for (int64_t i = 0; i < t.count(); ++i) {
    double value = convert(t.at(i), DType::f64).f;
    if (!std::isfinite(value)) continue;
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  if (!(range.low < range.high)) range.high = range.low + 1;  // one value: black
  return range;
}

HostTensor as_bytes(const HostTensor& t, const PictureRange& asked) {
  if (t.type == DType::u8 && !asked.given && !asked.automatic) return t;
  PictureRange range = asked.automatic ? found_range(t) : asked;
  HostTensor bytes(DType::u8, t.shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    double value = convert(t.at(i), DType::f64).f;
    double part = (value - range.low) / (range.high - range.low);
    if (std::isnan(part)) part = 0;
    bytes.set(i, real_scalar(std::clamp(part, 0.0, 1.0) * 255 + 0.5, DType::u8));
  }
  return bytes;
}

// Gray or RGB, as JPEG has it.
HostTensor without_alpha(const HostTensor& t, int64_t channels) {
  if (channels == 1 || channels == 3) return t;
  int64_t kept = channels - 1;
  HostTensor out(DType::u8, {t.shape[0], t.shape[1], kept});
  for (int64_t i = 0; i < out.count(); ++i) out.set(i, t.at(i / kept * channels + i % kept));
  return out;
}

// What libjpeg made; it allocates with malloc.
struct JpegBytes {
  unsigned char* data = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type
  ~JpegBytes() { std::free(data); }
};
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
  static void on_error(j_common_ptr info) {
    auto* errors = reinterpret_cast<JpegErrors*>(info->err);
    (*info->err->format_message)(info, errors->message);
    std::longjmp(errors->back, 1);
  }
};

// False: see the message. Between setjmp and longjmp no object with a destructor is made.
bool encode(const HostTensor& t, int channels, JpegBytes& to, JpegErrors& errors) {
  jpeg_compress_struct info{};
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = JpegErrors::on_error;
  errors.manager.output_message = [](j_common_ptr) {};
  if (setjmp(errors.back) != 0) {
    jpeg_destroy_compress(&info);
    return false;
  }
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &to.data, &to.size);
  info.image_height = static_cast<JDIMENSION>(t.shape[0]);
  info.image_width = static_cast<JDIMENSION>(t.shape[1]);
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, kQuality, TRUE);
  jpeg_start_compress(&info, TRUE);
  size_t row = static_cast<size_t>(t.shape[1]) * static_cast<size_t>(channels);
  while (info.next_scanline < info.image_height) {
    const std::byte* line = t.bytes.data() + row * info.next_scanline;
    // libjpeg reads the line; its type has no const.
    JSAMPROW rows[1] = {reinterpret_cast<JSAMPROW>(const_cast<std::byte*>(line))};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  return true;
}

std::string jpeg_of(const HostTensor& tensor, const PictureRange& range, const std::string& name) {
  int64_t channels = channels_of_jpeg(tensor.shape, name);
  HostTensor picture = without_alpha(as_bytes(tensor, range), channels);
  JpegBytes bytes;
  auto errors = std::make_unique<JpegErrors>();
  if (!encode(picture, channels <= 2 ? 1 : 3, bytes, *errors)) bad(name, errors->message);
  return {reinterpret_cast<const char*>(bytes.data), bytes.size};
}

}  // namespace

std::string png_of(const HostTensor& tensor, const PictureRange& range, const std::string& name) {
  int64_t channels = channels_of(tensor.shape, name);
  constexpr png_uint_32 kFormats[] = {0, PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                      PNG_FORMAT_RGBA};
  HostTensor bytes = as_bytes(tensor, range);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(tensor.shape[0]);
  image.width = static_cast<png_uint_32>(tensor.shape[1]);
  image.format = kFormats[channels];
  png_alloc_size_t size = 0;
  const void* pixels = bytes.bytes.data();
  if (png_image_write_to_memory(&image, nullptr, &size, 0, pixels, 0, nullptr) == 0) {
    bad(name, image.message);
  }
  std::string out(size, '\0');
  if (png_image_write_to_memory(&image, out.data(), &size, 0, pixels, 0, nullptr) == 0) {
    bad(name, image.message);
  }
  out.resize(size);
  return out;
}

void require_picture_shape(const std::string& path, const Shape& shape) {
  if (is_png(path)) {
    channels_of(shape, path);
  } else {
    channels_of_jpeg(shape, path);
  }
}

double cut_off(const HostTensor& t, const PictureRange& range) {
  if (range.automatic || t.count() == 0 || (t.type == DType::u8 && !range.given)) return 0;
  auto [low, high] = std::minmax(range.low, range.high);
  int64_t outside = 0;
  for (int64_t i = 0; i < t.count(); ++i) {
    double value = convert(t.at(i), DType::f64).f;
    if (!(value >= low && value <= high)) ++outside;
  }
  return static_cast<double>(outside) / static_cast<double>(t.count());
}

void write_picture(const std::string& path, const HostTensor& tensor, const PictureRange& range) {
  write_text(path, is_png(path) ? png_of(tensor, range, path) : jpeg_of(tensor, range, path));
}

}  // namespace tile::cli
