// Runs the fuzz target without libFuzzer: on every file of the corpus, on every prefix of it, and
// with every byte replaced by each of a few that matter to the grammar. A fault ends the process.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size);

namespace {

long runs = 0;

void try_text(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const unsigned char*>(text.data()), text.size());
  ++runs;
}

void try_variants(std::string text) {
  using namespace std::string_view_literals;
  try_text(text);
  for (size_t size = 0; size < text.size(); ++size) try_text(text.substr(0, size));
  for (char& byte : text) {
    const char original = byte;
    for (char other : "()[]{};,:?/*-9A\xff\0"sv) {
      byte = other;
      try_text(text);
    }
    byte = original;
  }
}

// Nesting and repetition far beyond any program a person writes.
void try_deep_texts() {
  const std::string head = "function (A[N]) -> (B) { B = ";
  for (const char* unit : {"(", "-", "!", "A + ", "A ? ", "A ? A : ", "exp(", "abs(A, ", "A < "}) {
    std::string text = head;
    for (int i = 0; i < 200000; ++i) text += unit;
    try_text(text);
  }
  std::string index = "function (A[N]) -> (B) { B[i: N] = +(A[";
  for (int i = 0; i < 200000; ++i) index += "(2*";
  try_text(index);
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
  try_deep_texts();
  std::printf("replay: %d files, %ld texts\n", files, runs);
  return files == 0;
}
