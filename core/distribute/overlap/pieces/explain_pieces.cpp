#include <cstdio>

#include "core/distribute/overlap/pieces/in_pieces.h"

namespace tile {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

}  // namespace

std::string explain_pieces(const std::vector<PiecedExchange>& pieces,
                           const std::vector<std::string>& names) {
  std::string text;
  for (const PiecedExchange& one : pieces) {
    text += "  " + names[one.exchange] + ": in " + std::to_string(one.pieces) + " pieces, each " +
            (one.gathers ? "before" : "behind") + " its part of ";
    for (size_t i = 0; i < one.results.size(); ++i) text += (i == 0 ? "" : ", ") + one.results[i];
    text += "; about " + number(one.now_ns / 1000) + " us instead of " +
            number(one.before_ns / 1000) + " us\n";
  }
  return text.empty() ? text : "exchanges in pieces\n" + text;
}

}  // namespace tile
