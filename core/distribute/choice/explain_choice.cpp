#include <cstdio>

#include "core/distribute/choice/choice.h"

namespace tile {
namespace {

std::string microseconds(double ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%.4g us", ns / 1000);
  return text;
}

std::string axes_text(const std::vector<size_t>& axes, const Mesh& mesh) {
  std::string text;
  for (size_t a : axes) text += (text.empty() ? "" : ".") + mesh.axes[a].name;
  return text;
}

}  // namespace

std::string explain(const Choice& choice) {
  const Mesh& mesh = choice.distribution.mesh;
  const ChoiceCost& cost = choice.cost;
  std::string out = "chosen: about " + microseconds(cost.time_ns()) + ", " +
                    microseconds(cost.compute_ns) + " of statements and " +
                    microseconds(cost.exchange_ns) + " of exchanges, after " +
                    std::to_string(choice.evaluated) + " steps of search\n";
  out += "  with all that is not named whole on every rank: about " +
         microseconds(choice.whole.time_ns()) + "\n";
  out += "  with `follow`: about " + microseconds(choice.followed.time_ns()) + "\n";
  for (const Choice::Alternative& other : choice.alternatives) {
    out += "  next best for " + other.result + ": " + to_string(other.computed, other.result, mesh);
    for (const ReductionCut& cut : other.cuts) {
      out += ", terms divided along " + cut.index + " over " + axes_text(cut.parts.axes, mesh);
    }
    out += ", " + microseconds(other.more_ns) + " more\n";
  }
  return out;
}

}  // namespace tile
