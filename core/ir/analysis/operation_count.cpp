#include "core/ir/analysis/operation_count.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "core/support/control.h"
#include "core/support/diagnostic.h"

namespace tile {
namespace {

constexpr double kLargestEnumeration = 1 << 26;

bool holds(const Constraint& c, std::span<const int64_t> x) {
  Rational value = c.form.evaluate(x);
  return Rational(c.lo) <= value && value < Rational(c.hi) && (!c.integral || value.is_integer());
}

// Which iterators are tied together by constraints: the number of the set of each.
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

// The values of iterator `u` in its box that satisfy every constraint when the others have the
// values in x: an interval, since no constraint wants an integer.
double solutions(const Piece& piece, size_t u, const std::vector<const Constraint*>& constraints,
                 std::vector<int64_t>& x) {
  x[u] = 0;
  int64_t first = 0, last = piece.box[u] - 1;
  for (const Constraint* c : constraints) {
    Rational slope = c->form.coefficient(u), rest = c->form.evaluate(x);
    Rational low = Rational(c->lo) - rest,
             high = Rational(c->hi) - rest;  // low <= slope * u < high
    if (slope.is_zero()) {
      if (Rational(0) < low || high <= Rational(0)) return 0;
      continue;
    }
    bool rising = Rational(0) < slope;
    Rational from = low / slope, to = high / slope;
    // Rising: from <= u < to; falling: to < u <= from.
    first = std::max(first, rising ? -(Rational(0) - from).floor() : to.floor() + 1);
    last = std::min(last, rising ? -(Rational(0) - to).floor() - 1 : from.floor());
  }
  return static_cast<double>(std::max<int64_t>(0, last - first + 1));
}

// The iterator that needs no enumeration: the longest in no constraint that wants an integer.
std::optional<size_t> solved_iterator(const Piece& piece, const std::vector<size_t>& free,
                                      const std::vector<const Constraint*>& constraints) {
  std::optional<size_t> longest;
  for (size_t u : free) {
    bool solvable = std::none_of(constraints.begin(), constraints.end(), [&](const Constraint* c) {
      return c->integral && !c->form.coefficient(u).is_zero();
    });
    if (solvable && (!longest || piece.box[u] > piece.box[*longest])) longest = u;
  }
  return longest;
}

// Points of the iterators `free` that satisfy `constraints`, which name no other iterator.
double enumerate(const Piece& piece, std::vector<size_t> free,
                 const std::vector<const Constraint*>& constraints) {
  double volume = 1;
  for (size_t i : free) volume *= static_cast<double>(piece.box[i]);
  if (constraints.empty() || volume == 0) return volume;
  std::optional<size_t> solved = solved_iterator(piece, free, constraints);
  if (solved) {
    volume /= static_cast<double>(piece.box[*solved]);
    std::erase(free, *solved);
  }
  if (volume > kLargestEnumeration) {
    fail(Stage::compile, "limit", {}, "a domain is too large to count its points");
  }
  std::vector<int64_t> x(piece.box.size(), 0);
  double count = 0;
  for (;;) {
    checkpoint();
    if (solved) {
      // A constraint that wants an integer does not name the solved iterator.
      bool valid = std::all_of(constraints.begin(), constraints.end(),
                               [&](const Constraint* c) { return !c->integral || holds(*c, x); });
      count += valid ? solutions(piece, *solved, constraints, x) : 0;
    } else {
      bool valid = std::all_of(constraints.begin(), constraints.end(),
                               [&](const Constraint* c) { return holds(*c, x); });
      count += valid ? 1 : 0;
    }
    size_t at = 0;
    while (at < free.size() && ++x[free[at]] == piece.box[free[at]]) x[free[at++]] = 0;
    if (at == free.size()) return count;
  }
}

double operations_of(const Node& node) {
  if (node.kind != NodeKind::operation) return 0;
  bool free = node.op == Op::cast || node.op == Op::cast_like || node.op == Op::ident;
  return free ? 0 : node.op == Op::fma ? 2 : 1;
}

std::optional<int64_t> constant_value(const Node& node) {
  if (node.kind == NodeKind::integer) return node.integer;
  bool constant = node.kind == NodeKind::size && node.expr.is_constant();
  return constant ? std::optional(node.expr.value()) : std::nullopt;
}

// Of a body and, for each of their iterations, of its folds.
std::optional<double> with_folds(const Body& body) {
  double count = 0;
  for (const Node& node : body.nodes) {
    count += operations_of(node);
    if (node.kind != NodeKind::fold) continue;
    std::optional<int64_t> begin = constant_value(body[node.args[0]]);
    std::optional<int64_t> end = constant_value(body[node.args[1]]);
    std::optional<double> inside = with_folds(*node.region);
    if (!begin || !end || !inside) return std::nullopt;
    auto combined = static_cast<double>(node.op == Op::ident ? 0 : node.slot);
    count += static_cast<double>(std::max<int64_t>(0, *end - *begin)) * (*inside + combined);
  }
  return count;
}

bool aggregates(const Contraction& contraction, const Piece& piece) {
  return contraction.aggregation != Aggregation::assign &&
         piece.parallel_dims < piece.iterators.size();
}

}  // namespace

std::optional<double> operations_with_folds(const Contraction& contraction, const Piece& piece) {
  std::optional<double> count = with_folds(tidied(piece.body));
  if (count && aggregates(contraction, piece)) ++*count;
  return count;
}

double count_points(const Piece& piece) {
  internal_check(piece.box.size() == piece.iterators.size(), "the piece has no box yet");
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
