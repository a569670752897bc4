#include <algorithm>
#include <cmath>

#include "core/lattice/simplex.h"

namespace tile::lattice {
namespace {

// Depth-first search for an integer point. A node is solved exactly where possible (equations by
// lattice elimination, rows by propagation, the rest by linear programming); what is left branches
// on the row or iterator with the fewest values, so that each branch is an equation that removes an
// iterator, or else halves around a fractional coordinate.
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
    Sublattice lattice = whole_lattice(rows.iterators);
    if (!eliminate(rows, lattice)) return false;
    std::erase_if(rows.rows, [&](const Row& r) { return implied(r, rows.box); });
    if (rows.rows.empty()) return true;
    Emptiness verdict = Emptiness::unknown;
    try {
      verdict = by_relaxation(rows);
    } catch (const Overflow&) {  // the relaxation only helps: the branches are exact without it
    }
    if (verdict != Emptiness::unknown) return verdict == Emptiness::inhabited;
    if (!branch_on_values(rows)) halve(rows);
    return false;
  }

  // Linear programming, then once more in a basis where few branches are left. `rows` keeps its
  // integer points at every moment.
  static Emptiness by_relaxation(Rows& rows) {
    Simplex simplex(rows);
    if (!simplex.feasible()) return Emptiness::empty;
    if (simplex.integral()) return Emptiness::inhabited;
    rows = transform(rows, short_basis(rows));
    if (!propagate(rows)) return Emptiness::empty;
    Vector centre;
    if (!tighten(rows, centre)) return Emptiness::empty;
    return holds_at(rows, centre) ? Emptiness::inhabited : Emptiness::unknown;
  }

  // Tightens the box to the relaxation; `centre` is the mean of the vertices on the way, rounded:
  // often a point, as it lies well inside.
  static bool tighten(Rows& rows, Vector& centre) {
    Simplex simplex(rows);
    if (!simplex.feasible()) return false;
    std::vector<double> sum(rows.iterators, 0);
    for (size_t i = 0; i < rows.iterators; ++i) {
      Range& range = rows.box[i];
      std::optional<WideRational> low = simplex.least(i);
      simplex.add_to(sum);
      std::optional<WideRational> high = simplex.greatest(i);
      simplex.add_to(sum);
      if (low) range.lo = std::max(range.lo, low->ceil());
      if (high) range.hi = std::min(range.hi, high->floor());
      if (range.empty()) return false;
    }
    for (double s : sum) {
      double mean = std::round(s / double(2 * sum.size()));
      centre.push_back(std::abs(mean) < 1e15 ? int64_t(mean) : 0);
    }
    return true;
  }

  static bool holds_at(const Rows& rows, const Vector& x) {
    for (size_t i = 0; i < rows.iterators; ++i) {
      if (x[i] < rows.box[i].lo || x[i] > rows.box[i].hi) return false;
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
    for (size_t i = 0; i < rows.iterators; ++i) {
      Vector unit(rows.iterators, 0);
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

  // Halves the interval with the fewest values.
  void halve(const Rows& rows) {
    auto size = [&](size_t i) {
      const Range& r = rows.box[i];
      return r.bounded() ? Wide(r.hi) - r.lo : Wide(1) << 100;
    };
    size_t at = 0;
    for (size_t i = 1; i < rows.iterators; ++i) {
      if (size(i) < size(at)) at = i;
    }
    const Range& r = rows.box[at];
    int64_t cut = r.bounded()        ? narrow(r.lo + (Wide(r.hi) - r.lo) / 2)
                  : r.lo != no_lower ? checked_add(r.lo, 1000)
                  : r.hi != no_upper ? checked_sub(r.hi, 1000)
                                     : 0;
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
  Sublattice lattice = whole_lattice(rows.iterators);
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
