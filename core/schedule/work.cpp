#include "core/schedule/work.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "core/support/diagnostic.h"

namespace tile {
namespace {

constexpr double kLargestEnumeration = 1 << 26;

bool holds(const Constraint& c, std::span<const int64_t> x) {
  Rational value = c.form.evaluate(x);
  return Rational(c.lo) <= value && value < Rational(c.hi) && (!c.integral || value.is_integer());
}

// Which unknowns are tied together by constraints: the number of the set of each.
std::vector<size_t> tied_sets(const Piece& piece) {
  std::vector<size_t> set(piece.box.size());
  std::iota(set.begin(), set.end(), size_t{0});
  for (const Constraint& c : piece.constraints) {
    std::optional<size_t> joined;
    for (size_t i = 0; i < set.size(); ++i) {
      if (c.form.coefficient(i).is_zero()) continue;
      if (!joined) joined = set[i];
      std::replace(set.begin(), set.end(), size_t{set[i]}, *joined);
    }
  }
  return set;
}

// Points of the unknowns `free` that satisfy `constraints`, which name no other unknown.
double enumerate(const Piece& piece, const std::vector<size_t>& free,
                 const std::vector<const Constraint*>& constraints) {
  double volume = 1;
  for (size_t i : free) volume *= static_cast<double>(piece.box[i]);
  if (constraints.empty() || volume == 0) return volume;
  if (volume > kLargestEnumeration) {
    fail(Stage::compile, "limit", {}, "a domain is too large to count its points");
  }
  std::vector<int64_t> x(piece.box.size(), 0);
  double count = 0;
  for (;;) {
    bool valid = true;
    for (const Constraint* c : constraints) valid = valid && holds(*c, x);
    count += valid ? 1 : 0;
    size_t at = 0;
    while (at < free.size() && ++x[free[at]] == piece.box[free[at]]) x[free[at++]] = 0;
    if (at == free.size()) return count;
  }
}

}  // namespace

double operations_per_point(const Contraction& contraction, const Piece& piece) {
  double count = 0;
  for (const Node& node : tidied(piece.body).nodes) {
    if (node.kind != NodeKind::operation) continue;
    bool free = node.op == Op::cast || node.op == Op::cast_like || node.op == Op::ident;
    count += free ? 0 : node.op == Op::fma ? 2 : 1;
  }
  bool aggregates =
      contraction.aggregation != Aggregation::assign && piece.owners < piece.unknowns.size();
  return count + (aggregates ? 1 : 0);
}

double count_points(const Piece& piece) {
  internal_check(piece.box.size() == piece.unknowns.size(), "the piece has no box yet");
  std::vector<size_t> set = tied_sets(piece);
  double count = 1;
  for (size_t s = 0; s < set.size(); ++s) {
    std::vector<size_t> free;
    for (size_t i = 0; i < set.size(); ++i) {
      if (set[i] == s) free.push_back(i);
    }
    if (free.empty()) continue;
    std::vector<const Constraint*> constraints;
    for (const Constraint& c : piece.constraints) {
      bool here = false;
      for (size_t i : free) here = here || !c.form.coefficient(i).is_zero();
      if (here) constraints.push_back(&c);
    }
    count *= enumerate(piece, free, constraints);
  }
  std::vector<int64_t> origin(piece.box.size(), 0);
  for (const Constraint& c : piece.constraints) {
    if (c.form.is_constant() && !holds(c, origin)) return 0;
  }
  return count;
}

}  // namespace tile
