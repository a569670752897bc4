// Pictures: PNG through libpng's simplified interface, JPEG through libjpeg.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>

// jpeglib.h needs size_t and FILE declared before it.
#include <jpeglib.h>

#include "runtime/cli/files.h"
#include "runtime/cli/tensor_file.h"

namespace tile::cli {
namespace {

[[noreturn]] void bad(const std::string& path, const std::string& why) {
  fail(Stage::run, "file", {}, path + ": " + why);
}

void check_size(const Shape& shape, int64_t most, const std::string& name) {
  if (shape[0] <= most / std::max<int64_t>(shape[1] * shape[2], 1)) return;
  bad(name, "the picture of " + std::to_string(shape[1]) + " by " + std::to_string(shape[0]) +
                " has more than " + std::to_string(most) + " bytes");
}

// What libpng holds of a picture in the making.
class Png {
 public:
  Png() { image_.version = PNG_IMAGE_VERSION; }
  ~Png() { png_image_free(&image_); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
  png_image* operator->() { return &image_; }
  png_image* get() { return &image_; }

 private:
  png_image image_{};
};

// libjpeg reports errors by a callback that must not return.
class Jpeg {
 public:
  Jpeg() {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = on_error;
    errors_.manager.output_message = [](j_common_ptr) {};
  }
  ~Jpeg() {
    if (made_) jpeg_destroy_decompress(&info_);
  }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;
  const char* message() const { return errors_.message; }

  // False: see message(). Between setjmp and longjmp no object with a destructor is made.
  bool begin(std::string_view file, int64_t (&shape)[3]) {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_create_decompress(&info_);
    made_ = true;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&info_, TRUE);
    bool gray = info_.jpeg_color_space == JCS_GRAYSCALE;
    info_.out_color_space = gray ? JCS_GRAYSCALE : JCS_RGB;
    shape[0] = info_.image_height;
    shape[1] = info_.image_width;
    shape[2] = gray ? 1 : 3;
    return true;
  }
  bool decode(std::byte* to) {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_start_decompress(&info_);
    size_t row =
        static_cast<size_t>(info_.output_width) * static_cast<size_t>(info_.output_components);
    while (info_.output_scanline < info_.output_height) {
      auto* line = reinterpret_cast<JSAMPROW>(to + row * info_.output_scanline);
      jpeg_read_scanlines(&info_, &line, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

 private:
  struct Errors {
    jpeg_error_mgr manager;
    std::jmp_buf back;
    char message[JMSG_LENGTH_MAX];
  };
  static void on_error(j_common_ptr info) {
    auto* errors = reinterpret_cast<Errors*>(info->err);
    (*info->err->format_message)(info, errors->message);
    std::longjmp(errors->back, 1);
  }
  jpeg_decompress_struct info_{};
  Errors errors_{};
  bool made_ = false;
};

}  // namespace

HostTensor parse_png(std::string_view bytes, const std::string& name, int64_t most) {
  Png image;
  if (png_image_begin_read_from_memory(image.get(), bytes.data(), bytes.size()) == 0) {
    bad(name, image->message);
  }
  image->format &= PNG_FORMAT_FLAG_ALPHA | PNG_FORMAT_FLAG_COLOR;  // 8 bits, RGB order
  auto channels = static_cast<int64_t>(PNG_IMAGE_SAMPLE_CHANNELS(image->format));
  Shape shape{image->height, image->width, channels};
  check_size(shape, most, name);
  HostTensor t(DType::u8, shape);
  if (png_image_finish_read(image.get(), nullptr, t.bytes.data(), 0, nullptr) == 0) {
    bad(name, image->message);
  }
  return t;
}

HostTensor parse_jpeg(std::string_view bytes, const std::string& name, int64_t most) {
  Jpeg jpeg;
  int64_t extents[3];
  if (!jpeg.begin(bytes, extents)) bad(name, jpeg.message());
  Shape shape(std::begin(extents), std::end(extents));
  check_size(shape, most, name);
  HostTensor t(DType::u8, shape);
  if (!jpeg.decode(t.bytes.data())) bad(name, jpeg.message());
  return t;
}

HostTensor read_picture(const std::string& path) {
  std::string bytes = read_text(path);
  return is_png(path) ? parse_png(bytes, path) : parse_jpeg(bytes, path);
}

}  // namespace tile::cli
