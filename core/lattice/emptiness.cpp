#include <algorithm>

#include "core/lattice/simplex.h"

namespace tile::lattice {
namespace {

// Depth-first search for an integer point. A node is solved exactly where possible (equations by
// lattice elimination, rows by propagation, the rest by linear programming); what is left branches
// on the row or unknown with the fewest values, so that each branch is an equation that removes an
// unknown, or else halves around a fractional coordinate.
class Search {
 public:
  explicit Search(int64_t limit) : left_(limit) {}

  Emptiness run(Rows rows) {
    open_.push_back(std::move(rows));
    while (!open_.empty()) {
      if (left_-- <= 0) return Emptiness::unknown;
      Rows node = std::move(open_.back());
      open_.pop_back();
      if (expand(std::move(node))) return Emptiness::inhabited;
    }
    return Emptiness::empty;
  }

  int64_t left() const { return left_; }

 private:
  // True when the node has a point; otherwise its children, if any, are open.
  bool expand(Rows rows) {
    Sublattice lattice = whole_lattice(rows.unknowns);
    if (!eliminate(rows, lattice)) return false;
    std::erase_if(rows.rows, [&](const Row& r) { return implied(r, rows.box); });
    if (rows.rows.empty()) return true;
    Simplex simplex(rows);
    if (!simplex.feasible()) return false;
    if (simplex.integral() || rounds_to_point(rows, simplex)) return true;
    if (!branch_on_values(rows)) halve(rows, simplex);
    return false;
  }

  static bool rounds_to_point(const Rows& rows, const Simplex& simplex) {
    Vector x;
    for (size_t i = 0; i < rows.unknowns; ++i) {
      int64_t v = (simplex.value(i) + Rational(1, 2)).floor();
      if (v < rows.box[i].lo || v > rows.box[i].hi) return false;
      x.push_back(v);
    }
    return std::all_of(rows.rows.begin(), rows.rows.end(), [&](const Row& row) {
      Wide sum = dot(row.a, x);
      return sum >= row.range.lo && sum <= row.range.hi;
    });
  }

  bool branch_on_values(const Rows& rows) {
    constexpr Wide most_values = 8;
    Vector best;
    Range values;
    Wide fewest = most_values + 1;
    auto consider = [&](const Vector& a, const Range& range) {
      if (!range.bounded() || Wide(range.hi) - range.lo + 1 >= fewest) return;
      fewest = Wide(range.hi) - range.lo + 1;
      best = a;
      values = range;
    };
    for (const Row& row : rows.rows) {
      Range reach = row_values(row.a, rows.box);
      consider(row.a, {std::max(reach.lo, row.range.lo), std::min(reach.hi, row.range.hi)});
    }
    for (size_t i = 0; i < rows.unknowns; ++i) {
      Vector unit(rows.unknowns, 0);
      unit[i] = 1;
      consider(unit, rows.box[i]);
    }
    if (best.empty()) return false;
    for (int64_t v = values.hi; v >= values.lo; --v) {
      open_.push_back(rows);
      add_row(open_.back(), best, v, v);
    }
    return true;
  }

  void halve(const Rows& rows, const Simplex& simplex) {
    size_t at = rows.unknowns;
    auto size = [&](size_t i) {
      const Range& r = rows.box[i];
      return r.bounded() ? Wide(r.hi) - r.lo : Wide(1) << 100;
    };
    for (size_t i = 0; i < rows.unknowns; ++i) {
      if (simplex.value(i).is_integer()) continue;
      if (at == rows.unknowns || size(i) < size(at)) at = i;
    }
    int64_t cut = simplex.value(at).floor();
    open_.push_back(rows);
    open_.back().box[at].lo = checked_add(cut, 1);
    open_.push_back(rows);
    open_.back().box[at].hi = cut;
  }

  std::vector<Rows> open_;
  int64_t left_;
};

}  // namespace

Emptiness search(const Rows& given, int64_t work_limit) {
  if (work_limit <= 0) return Emptiness::unknown;
  Rows rows = given;
  Sublattice lattice = whole_lattice(rows.unknowns);
  if (!eliminate(rows, lattice)) return Emptiness::empty;
  Emptiness result = Emptiness::inhabited;
  for (const Component& component : components(rows)) {
    Search one(work_limit);
    Emptiness e = one.run(part(rows, component));
    if (e == Emptiness::empty) return e;
    if (e == Emptiness::unknown) result = e;
    work_limit = one.left();
  }
  return result;
}

Emptiness emptiness(const System& system, int64_t work_limit) {
  return search(normalise(system), work_limit);
}

}  // namespace tile::lattice
