// Any bytes are either a picture or an error of the PNG and of the JPEG reader that names the file.
#include "runtime/cli/tensor_file.h"
#include "tests/fuzz/file_target.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  constexpr int64_t kMost = 1 << 20;  // a run takes milliseconds
  tile::fuzz::read_file(data, size, [](std::string_view bytes, const std::string& name) {
    return tile::cli::parse_png(bytes, name, kMost);
  });
  return tile::fuzz::read_file(data, size, [](std::string_view bytes, const std::string& name) {
    return tile::cli::parse_jpeg(bytes, name, kMost);
  });
}
