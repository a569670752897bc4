// Runs a fuzz target without libFuzzer: on every file of the corpus, on every prefix of it, and
// with every bit flipped. A fault ends the process.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size);

namespace {

long runs = 0;

void try_bytes(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  ++runs;
}

void try_variants(std::string bytes) {
  try_bytes(bytes);
  for (size_t size = 0; size < bytes.size(); ++size) try_bytes(bytes.substr(0, size));
  for (char& byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      byte = static_cast<char>(byte ^ (1 << bit));
      try_bytes(bytes);
      byte = static_cast<char>(byte ^ (1 << bit));
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  int files = 0;
  for (int i = 1; i < count; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(arguments[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      try_variants({std::istreambuf_iterator<char>(file), {}});
      ++files;
    }
  }
  std::printf("replay: %d files, %ld inputs\n", files, runs);
  return files == 0;
}
