#include "core/language/idioms/idiom.h"

namespace tile {
namespace {

bool ends_a_list(std::string_view symbol) {
  constexpr std::array<std::string_view, 5> kEnds = {")", "]", "}", "|", ";"};
  return std::find(kEnds.begin(), kEnds.end(), symbol) != kEnds.end();
}

}  // namespace

std::string_view symbols_hint(std::string_view before, std::string_view next,
                              std::string_view after) {
  if (next == ":" && after == "=") return "a value is given by = alone, without a colon";
  bool trailing = (before == "," && ends_a_list(next)) || (next == "," && ends_a_list(after));
  return trailing ? kTrailingComma : "";
}

}  // namespace tile
