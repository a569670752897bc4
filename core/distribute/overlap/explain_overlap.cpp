#include <algorithm>
#include <cstdio>

#include "core/distribute/overlap/overlap.h"

namespace tile {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

}  // namespace

std::string explain_overlap(const std::vector<std::vector<Travel>>& ranks,
                            const std::vector<std::string>& names) {
  std::string text;
  for (size_t e = 0; e < names.size(); ++e) {
    size_t travelling = 0;
    double least = 1, inner = 0, hidden = 0;
    for (const std::vector<Travel>& rank : ranks) {
      const Travel& travel = rank[e];
      if (!travel.travels) continue;
      ++travelling;
      least = std::min(least, travel.inner);
      inner = std::max(inner, travel.inner);
      hidden = std::max(hidden, travel.hidden_ns);
    }
    if (travelling == 0) continue;
    text += "  " + names[e] + ": on " + std::to_string(travelling) + " of " +
            std::to_string(ranks.size()) + " ranks beside ";
    std::string share = number(100 * least);
    if (inner != least) share += " to " + number(100 * inner);
    text += inner == 0 ? "statements that do not wait for it" : share + " % of what waits for it";
    text += ", hides at most " + number(hidden / 1000) + " us\n";
  }
  return text.empty() ? text : "exchanges that travel while ranks compute\n" + text;
}

}  // namespace tile
