// A table of what people type who know other languages, and how it is said here.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace tile {

inline constexpr std::string_view kTrailingComma =
    "a comma stands between two of a list: leave out the one behind the last";

struct Idiom {
  std::string_view name, hint;
};

template <size_t N>
std::string_view find_hint(const std::array<Idiom, N>& list, std::string_view name) {
  auto found = std::find_if(list.begin(), list.end(),
                            [&](const Idiom& idiom) { return idiom.name == name; });
  return found == list.end() ? std::string_view() : found->hint;
}

// Of the symbol `next`, which no expression goes on with, and those beside it: what all three
// languages write otherwise than others. "": nothing is known of it.
std::string_view symbols_hint(std::string_view before, std::string_view next,
                              std::string_view after);

}  // namespace tile
