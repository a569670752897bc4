// A table of what people type who know other languages, and how it is said here.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace tile {

struct Idiom {
  std::string_view name, hint;
};

template <size_t N>
std::string_view find_hint(const std::array<Idiom, N>& list, std::string_view name) {
  auto found = std::find_if(list.begin(), list.end(),
                            [&](const Idiom& idiom) { return idiom.name == name; });
  return found == list.end() ? std::string_view() : found->hint;
}

}  // namespace tile
