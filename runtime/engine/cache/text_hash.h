// The hash of tables whose keys are texts of kernels: tens of kilobytes, looked up at every new
// size.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <string>

namespace tile {

struct TextHash {
  size_t operator()(const std::string& text) const noexcept {
    return XXH3_64bits(text.data(), text.size());
  }
};

}  // namespace tile
