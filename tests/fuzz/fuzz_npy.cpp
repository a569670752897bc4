// Any bytes are either a tensor or an error of the .npy reader that names the file. Anything else
// ends the process: libFuzzer and replay_files.cpp both report that.
#include "runtime/cli/tensor_file.h"
#include "tests/fuzz/file_target.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  return tile::fuzz::read_file(data, size, [](std::string_view bytes, const std::string& name) {
    return tile::cli::parse_npy(bytes, name);
  });
}
