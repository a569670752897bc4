// Systems for the lattice tests, and brute force over small boxes.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>

#include "core/lattice/lattice.h"

namespace tile::lattice::testing {

using Point = std::vector<int64_t>;

inline Affine form(decltype(Affine::coefficients) coefficients, Rational constant = 0) {
  return {std::move(coefficients), constant};
}
inline Condition access(Affine f, int64_t extent) { return {std::move(f), 0, extent, true}; }
inline Condition constraint(Affine f, int64_t bound) { return {std::move(f), 0, bound, false}; }

inline bool holds(const Condition& c, const Point& x) {
  Rational v = c.form.evaluate(x);
  return v >= Rational(c.lo) && v < Rational(c.hi) && (!c.integral || v.is_integer());
}
inline bool holds(const System& system, const Point& x) {
  return std::all_of(system.conditions.begin(), system.conditions.end(),
                     [&](const Condition& c) { return holds(c, x); });
}

inline void for_each_point(const std::vector<Interval>& box,
                           const std::function<void(const Point&)>& visit) {
  Point x;
  for (const Interval& i : box) {
    if (i.empty()) return;
    x.push_back(i.lo);
  }
  while (true) {
    visit(x);
    size_t i = 0;
    while (i < x.size() && x[i] == box[i].hi) {
      x[i] = box[i].lo;
      ++i;
    }
    if (i == x.size()) return;
    ++x[i];
  }
}

// Every point of the system within the box.
inline std::set<Point> points(const System& system, const std::vector<Interval>& box) {
  std::set<Point> result;
  for_each_point(box, [&](const Point& x) {
    if (holds(system, x)) result.insert(x);
  });
  return result;
}
inline std::vector<Interval> cube(size_t iterators, int64_t lo, int64_t hi) {
  return std::vector<Interval>(iterators, Interval{lo, hi});
}

inline Point image(const Substitution& s, const Point& z) {
  Point x;
  for (const Affine& f : s.old_in_new) {
    Rational v = f.evaluate(z);
    if (!v.is_integer()) throw std::runtime_error("a substitution left the integers");
    x.push_back(v.num());
  }
  return x;
}
inline System rewritten(const System& system, const Substitution& s) {
  System r{s.iterators, system.conditions};
  for (Condition& c : r.conditions) c.form = substitute(c.form, s.old_in_new);
  return r;
}
inline std::vector<Affine> rewritten(std::vector<Affine> forms, const Substitution& s) {
  for (Affine& f : forms) f = substitute(f, s.old_in_new);
  return forms;
}

// What the middle end does with one contraction: integrality, ownership, residue classes.
struct Owned {
  bool empty = false;
  std::optional<size_t> unbounded;
  Substitution to_owned;  // the substitutions of the first two steps, in one
  size_t parallel_dims = 0;
  System system;  // as given to split
  std::vector<Piece> pieces;
};
inline Owned own(const System& system, const std::vector<Affine>& outputs,
                 int64_t class_limit = 64) {
  Owned r;
  std::optional<Substitution> integral = solve_integrality(system);
  if (!integral) {
    r.empty = true;
    return r;
  }
  System integral_system = rewritten(system, *integral);
  Bounds b = bounds(integral_system);
  r.empty = b.empty;
  r.unbounded = b.unbounded;
  if (b.empty || b.unbounded) return r;
  Ownership o = own_outputs(integral->iterators, rewritten(outputs, *integral), b.box);
  r.parallel_dims = o.parallel_dims;
  r.system = rewritten(integral_system, o.substitution);
  r.to_owned.iterators = o.substitution.iterators;
  r.to_owned.old_in_new = rewritten(integral->old_in_new, o.substitution);
  r.pieces = split(r.system, r.parallel_dims, class_limit);
  return r;
}

// Whether the box of a piece starts at 0 and touches its points on every side.
inline bool exact_box(const Piece& piece, const std::set<Point>& own_points) {
  for (size_t i = 0; i < piece.box.size(); ++i) {
    int64_t least = piece.box[i].hi, greatest = 0;
    for (const Point& z : own_points) {
      least = std::min(least, z[i]);
      greatest = std::max(greatest, z[i]);
    }
    if (piece.box[i].lo != 0 || least != 0 || greatest != piece.box[i].hi) return false;
  }
  return true;
}

// Checks what `split` promises against brute force over `box`, which holds every point: each point
// in exactly one piece, boxes exact from 0, cells and parallel points one to one, none shared.
// `wider`: boxes may be wider than their points, of which there may be none. Returns "" or the
// first fault.
inline std::string fault(const System& system, const std::vector<Affine>& outputs,
                         const Owned& owned, const std::vector<Interval>& box, bool wider = false) {
  std::set<Point> expected = points(system, box), seen;
  if (owned.unbounded) return "unbounded";
  if (owned.empty) return expected.empty() ? "" : "called empty, but it has points";
  using ParallelDim = std::pair<size_t, Point>;
  std::map<Point, ParallelDim> point_of;
  std::map<ParallelDim, Point> cell_of;
  for (size_t p = 0; p < owned.pieces.size(); ++p) {
    const Piece& piece = owned.pieces[p];
    std::set<Point> own_points = points(piece.system, piece.box);
    if (own_points.empty() && !wider) return "a piece without points";
    if (!wider && !exact_box(piece, own_points)) return "a box that is not exact";
    for (const Point& z : own_points) {
      Point x = image(owned.to_owned, image(piece.substitution, z));
      if (!expected.count(x)) return "a point that is not in the system";
      if (!seen.insert(x).second) return "a point twice";
      Point cell;
      for (const Affine& f : outputs) cell.push_back(f.evaluate(x).num());
      ParallelDim point{p, Point(z.begin(), z.begin() + std::ptrdiff_t(piece.parallel_dims))};
      if (point_of.emplace(cell, point).first->second != point)
        return "a cell with two parallel points";
      if (cell_of.emplace(point, cell).first->second != cell)
        return "a parallel point with two cells";
    }
  }
  return seen == expected ? "" : "a point is missing";
}

}  // namespace tile::lattice::testing
