// What the targets that read files have in common.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/ir/scalar.h"
#include "core/support/diagnostic.h"

namespace tile::fuzz {

[[noreturn]] inline void fault(const char* what) {
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

// read(bytes, name) gives a tensor whose elements are all there, or a Failure of code "file".
template <class Read>
int read_file(const unsigned char* data, size_t size, const Read& read) {
  try {
    HostTensor t = read(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.file");
    if (t.bytes.size() != static_cast<size_t>(t.count()) * byte_size(t.type)) {
      fault("a tensor without its elements");
    }
  } catch (const Failure& failure) {
    const Diagnostic& error = failure.diagnostic();
    if (error.code != "file") fault("an error of another kind");
    if (error.message.find("fuzz.file") == std::string::npos) fault("an error without the file");
  }
  return 0;
}

}  // namespace tile::fuzz
