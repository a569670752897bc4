#include <algorithm>

#include "core/distribute/overlap/overlap.h"
#include "core/distribute/overlap/three_digits.h"

namespace tile {
namespace {

// What ranks do before one exchange's result is there.
struct Told {
  size_t ranks = 0, travelling = 0;
  double least = 1, most = 0;  // of the cells that need the result, computed before
  double hidden_ns = 0;

  void add(const Travel& travel) {
    if (!travel.travels && travel.inner == 0) return;
    ++ranks;
    travelling += travel.travels;
    least = std::min(least, travel.inner);
    most = std::max(most, travel.inner);
    hidden_ns = std::max(hidden_ns, travel.hidden_ns);
  }
  std::string text(size_t all) const {
    std::string share = three_digits(100 * least);
    if (most != least) share += " to " + three_digits(100 * most);
    std::string what =
        most == 0 ? "statements that do not wait for it" : share + " % of what waits for it";
    std::string told = "on " + std::to_string(ranks) + " of " + std::to_string(all) + " ranks " +
                       (travelling == 0 ? "behind " : "beside ") + what;
    if (travelling != 0) told += ", hides at most " + three_digits(hidden_ns / 1000) + " us";
    return told;
  }
};

}  // namespace

std::string explain_overlap(const std::vector<std::vector<Travel>>& ranks,
                            const std::vector<std::string>& names) {
  std::string text;
  for (size_t e = 0; e < names.size(); ++e) {
    Told told;
    for (const std::vector<Travel>& rank : ranks) told.add(rank[e]);
    if (told.ranks != 0) text += "  " + names[e] + ": " + told.text(ranks.size()) + "\n";
  }
  return text.empty() ? text : "exchanges that ranks compute beside, or before\n" + text;
}

}  // namespace tile
