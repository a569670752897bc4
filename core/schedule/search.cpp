// The race: rungs of candidates, each rung measured again, the slower half dropped.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/schedule/schedule.h"

namespace tile {

Schedule search(const Kernel& kernel, const Target& target,
                const std::function<double(const Schedule&)>& measure,
                const SearchOptions& options) {
  struct Entry {
    Schedule schedule;
    double best = std::numeric_limits<double>::infinity();
  };
  std::vector<Entry> field;
  for (Schedule& s : candidates(kernel, target, std::max<size_t>(options.candidates, 1))) {
    field.push_back({std::move(s), std::numeric_limits<double>::infinity()});
  }
  double spent = 0, best = std::numeric_limits<double>::infinity();
  size_t tried = 0, total = 0;
  for (size_t n = field.size(); n > 0; n = n > 2 ? (n + 2) / 3 : n - 1) total += n;
  size_t keep = field.size();
  while (keep > 0 && spent < options.budget_ns) {
    field.resize(keep);
    for (Entry& e : field) {
      double ns = measure(e.schedule);
      ++tried;
      e.best = std::min(e.best, ns);
      best = std::min(best, ns);
      if (std::isfinite(ns)) spent += ns;
      if (options.progress) options.progress(tried, total, best);
      if (spent >= options.budget_ns) break;
    }
    std::stable_sort(field.begin(), field.end(),
                     [](const Entry& a, const Entry& b) { return a.best < b.best; });
    keep = keep > 2 ? (keep + 2) / 3 : keep - 1;
  }
  return field.front().schedule;
}

}  // namespace tile
