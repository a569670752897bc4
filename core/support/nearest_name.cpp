#include "core/support/nearest_name.h"

#include <algorithm>
#include <numeric>

namespace tile {
namespace {

constexpr size_t kMaxCompared = 64;  // bytes of names that are compared for hints

// Levenshtein distance.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string_view> nearest_name(std::string_view name,
                                             const std::vector<std::string_view>& candidates) {
  if (name.size() > kMaxCompared) return std::nullopt;
  std::optional<std::string_view> best;
  size_t least = name.size() < 3 ? 1 : 1 + name.size() / 3;
  for (std::string_view candidate : candidates) {
    if (candidate.size() > kMaxCompared || candidate == name) continue;
    size_t d = distance(name, candidate);
    if (d >= candidate.size() || d > least || (best && d == least)) continue;
    best = candidate;
    least = d;
  }
  return best;
}

}  // namespace tile
