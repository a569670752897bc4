// The parts of an estimate, by name: what the functions of this folder tell of the time that they
// return, if they are asked to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tile {

// How the parts of a term make its time.
enum class Combine : uint8_t {
  sum,      // factor * the sum of all
  largest,  // factor * the largest, which hides the others
  overlap,  // the largest, and `factor` of the sum of the others
};

struct CostTerm {
  std::string name;
  double ns = 0;  // nanoseconds of one run; a correction may be negative
  Combine how = Combine::sum;
  double factor = 1;
  std::vector<CostTerm> parts;                        // none: the term is the model's own figure
  std::vector<std::pair<std::string, double>> facts;  // what it was computed from: waves, threads …

  void add(std::string part, double nanoseconds) {
    CostTerm term;
    term.name = std::move(part);
    term.ns = nanoseconds;
    parts.push_back(std::move(term));
  }
  void add(CostTerm term) { parts.push_back(std::move(term)); }
  void add_if(std::string part, double nanoseconds) {
    if (nanoseconds != 0) add(std::move(part), nanoseconds);
  }
};

// The nanoseconds that the parts make together; of a term without parts its own.
inline double combined(const CostTerm& term) {
  if (term.parts.empty()) return term.ns;
  double most = term.parts[0].ns, sum = 0;
  for (const CostTerm& part : term.parts) {
    most = std::max(most, part.ns);
    sum += part.ns;
  }
  if (term.how == Combine::sum) return term.factor * sum;
  return term.how == Combine::largest ? term.factor * most : most + term.factor * (sum - most);
}

// A term of these parts.
inline CostTerm combine(std::string name, Combine how, double factor, std::vector<CostTerm> parts) {
  CostTerm term;
  term.name = std::move(name);
  term.how = how;
  term.factor = factor;
  term.parts = std::move(parts);
  term.ns = combined(term);
  return term;
}

// One without parts.
inline CostTerm cost_leaf(std::string name, double ns) {
  CostTerm term;
  term.name = std::move(name);
  term.ns = ns;
  return term;
}

}  // namespace tile
