#include "core/distribute/overlap/pieces/in_pieces.h"
#include "core/distribute/overlap/three_digits.h"

namespace tile {

std::string explain_pieces(const std::vector<PiecedExchange>& pieces,
                           const std::vector<std::string>& names) {
  std::string text;
  for (const PiecedExchange& one : pieces) {
    text += "  " + names[one.exchange] + ": in " + std::to_string(one.pieces) + " pieces, each " +
            (one.gathers ? "before" : "behind") + " its part of ";
    for (size_t i = 0; i < one.results.size(); ++i) text += (i == 0 ? "" : ", ") + one.results[i];
    text += "; about " + three_digits(one.now_ns / 1000) + " us instead of " +
            three_digits(one.before_ns / 1000) + " us\n";
  }
  return text.empty() ? text : "exchanges in pieces\n" + text;
}

}  // namespace tile
