#include "core/lattice/rows.h"

#include <algorithm>
#include <numeric>

#include "core/support/control.h"

namespace tile::lattice {
namespace {

// Division of wide integers takes dozens of instructions, and most divisors are 1.
Wide wide_floor(Wide a, Wide b) {
  if (b == 1) return a;
  Wide q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
Wide wide_ceil(Wide a, Wide b) { return -wide_floor(-a, b); }

// A bound that is too weak to write down is no bound; one that is too strong is an overflow.
int64_t lower_bound(Wide value) {
  if (value <= no_lower) return no_lower;
  if (value >= no_upper) throw Overflow();
  return static_cast<int64_t>(value);
}
int64_t upper_bound(Wide value) {
  if (value >= no_upper) return no_upper;
  if (value <= no_lower) throw Overflow();
  return static_cast<int64_t>(value);
}

// A bound that the caller stated must be kept.
int64_t stated(Wide value) {
  if (value <= no_lower || value >= no_upper) throw Overflow();
  return static_cast<int64_t>(value);
}

bool meet(Range& range, const Range& other) {
  bool changed = other.lo > range.lo || other.hi < range.hi;
  range.lo = std::max(range.lo, other.lo);
  range.hi = std::min(range.hi, other.hi);
  return changed;
}

int64_t common_denominator(const Affine& form) {
  int64_t d = form.constant.den();
  for (const Rational& c : form.coefficients) {
    if (!c.is_integer()) d = lcm(d, c.den());
  }
  return d;
}

int64_t scaled(const Rational& value, int64_t denominator) {
  return checked_mul(value.num(), denominator / value.den());
}

bool parallel(const Vector& a, const Vector& b, int sign) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (Wide(a[i]) != Wide(b[i]) * sign) return false;
  }
  return true;
}

// A second row in the same or the opposite direction only tightens the first.
bool merged(Rows& rows, const Vector& a, const Range& range) {
  for (Row& row : rows.rows) {
    if (parallel(row.a, a, 1)) {
      meet(row.range, range);
    } else if (parallel(row.a, a, -1)) {
      meet(row.range, {range.hi == no_upper ? no_lower : -range.hi,
                       range.lo == no_lower ? no_upper : -range.lo});
    } else {
      continue;
    }
    rows.empty = rows.empty || row.range.empty();
    return true;
  }
  return false;
}

// One end of a sum over a box: the finite part and how many terms are infinite.
struct End {
  Wide finite = 0;
  int infinite = 0;
};

struct Term {
  Wide low, high;
  bool low_open, high_open;
};

Term term(int64_t a, const Range& range) {
  int64_t first = a > 0 ? range.lo : range.hi, second = a > 0 ? range.hi : range.lo;
  bool first_open = a > 0 ? range.lo == no_lower : range.hi == no_upper;
  bool second_open = a > 0 ? range.hi == no_upper : range.lo == no_lower;
  return {first_open ? 0 : Wide(a) * first, second_open ? 0 : Wide(a) * second, first_open,
          second_open};
}

void ends(std::span<const int64_t> a, std::span<const Range> box, End& low, End& high) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == 0) continue;
    Term t = term(a[i], box[i]);
    low.finite = wide_add(low.finite, t.low);
    low.infinite += t.low_open;
    high.finite = wide_add(high.finite, t.high);
    high.infinite += t.high_open;
  }
}

// a * x <= top or a * x >= bottom, where present, as a range of x.
Range divided(int64_t a, bool has_bottom, Wide bottom, bool has_top, Wide top) {
  Range r;
  if (has_top)
    (a > 0 ? r.hi : r.lo) =
        a > 0 ? upper_bound(wide_floor(top, a)) : lower_bound(wide_ceil(top, a));
  if (has_bottom)
    (a > 0 ? r.lo : r.hi) =
        a > 0 ? lower_bound(wide_ceil(bottom, a)) : upper_bound(wide_floor(bottom, a));
  return r;
}

// bound - (sum - own): what the other terms leave to this one.
Wide rest(int64_t bound, Wide sum, Wide own) { return wide_add(wide_add(own, -sum), bound); }

// Tightens the box by one row; false when the row cannot be met.
bool propagate_row(const Row& row, std::vector<Range>& box, bool& changed) {
  checkpoint();
  End low, high;
  ends(row.a, box, low, high);
  if (row.range.hi != no_upper && low.infinite == 0 && low.finite > row.range.hi) return false;
  if (row.range.lo != no_lower && high.infinite == 0 && high.finite < row.range.lo) return false;
  for (size_t i = 0; i < row.a.size(); ++i) {
    if (row.a[i] == 0) continue;
    Term t = term(row.a[i], box[i]);
    bool has_top = row.range.hi != no_upper && low.infinite == int(t.low_open);
    bool has_bottom = row.range.lo != no_lower && high.infinite == int(t.high_open);
    Range r = divided(row.a[i], has_bottom, rest(row.range.lo, high.finite, t.high), has_top,
                      rest(row.range.hi, low.finite, t.low));
    changed = meet(box[i], r) || changed;
    if (box[i].empty()) return false;
  }
  return true;
}

size_t find_root(std::vector<size_t>& parent, size_t i) {
  while (parent[i] != i) i = parent[i] = parent[parent[i]];
  return i;
}

}  // namespace

Wide dot(std::span<const int64_t> a, std::span<const int64_t> b) {
  Wide sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != 0 && b[i] != 0) sum = wide_add(sum, Wide(a[i]) * b[i]);
  }
  return sum;
}

int64_t gcd_of(std::span<const int64_t> a) {
  int64_t g = 0;
  for (int64_t v : a) {
    if (v != 0) g = g == 1 ? 1 : gcd(g, v);
  }
  return g;
}

void add_row(Rows& rows, Vector a, Wide lo, Wide hi) {
  checkpoint();
  int64_t g = gcd_of(a);
  if (g == 0) {
    rows.empty = rows.empty || (lo != no_lower && lo > 0) || (hi != no_upper && hi < 0);
    return;
  }
  Range range;
  if (lo != no_lower) range.lo = stated(wide_ceil(lo, g));
  if (hi != no_upper) range.hi = stated(wide_floor(hi, g));
  if (g != 1) {
    for (int64_t& v : a) v /= g;
  }
  auto nonzero = [](int64_t v) { return v != 0; };
  auto first = std::find_if(a.begin(), a.end(), nonzero);
  if (std::find_if(first + 1, a.end(), nonzero) == a.end()) {
    if (*first < 0) {
      range = {range.hi == no_upper ? no_lower : -range.hi,
               range.lo == no_lower ? no_upper : -range.lo};
    }
    Range& own = rows.box[size_t(first - a.begin())];
    meet(own, range);
    rows.empty = rows.empty || own.empty();
  } else if (!merged(rows, a, range)) {
    rows.empty = rows.empty || range.empty();
    rows.rows.push_back({std::move(a), range});
  }
}

Rows normalise(const System& system) {
  Rows rows;
  rows.iterators = system.iterators;
  rows.box.resize(system.iterators);
  for (const Condition& condition : system.conditions) {
    int64_t d = common_denominator(condition.form);
    Vector a(system.iterators, 0);
    for (size_t i = 0; i < system.iterators; ++i) a[i] = scaled(condition.form.coefficient(i), d);
    int64_t constant = scaled(condition.form.constant, d);
    if (condition.integral && d != 1) rows.congruences.push_back({a, constant, d});
    Wide lo = wide_add(Wide(condition.lo) * d, -Wide(constant));
    Wide hi = wide_add(Wide(condition.hi) * d, -Wide(constant) - 1);
    if (lo == no_lower || hi == no_upper) throw Overflow();
    add_row(rows, std::move(a), lo, hi);
  }
  return rows;
}

Range row_values(std::span<const int64_t> a, std::span<const Range> box) {
  End low, high;
  ends(a, box, low, high);
  Range r;
  if (low.infinite == 0 && low.finite > no_lower) r.lo = lower_bound(low.finite);
  if (high.infinite == 0 && high.finite < no_upper) r.hi = upper_bound(high.finite);
  return r;
}

bool implied(const Row& row, std::span<const Range> box) {
  End low, high;
  ends(row.a, box, low, high);
  bool lower = row.range.lo == no_lower || (low.infinite == 0 && low.finite >= row.range.lo);
  bool upper = row.range.hi == no_upper || (high.infinite == 0 && high.finite <= row.range.hi);
  return lower && upper;
}

bool propagate(Rows& rows) {
  if (rows.empty) return false;
  constexpr int round_limit = 4;  // slow convergence is left to the linear program
  bool changed = true;
  for (int round = 0; changed && round < round_limit; ++round) {
    changed = false;
    for (const Row& row : rows.rows) {
      if (!propagate_row(row, rows.box, changed)) {
        rows.empty = true;
        return false;
      }
    }
  }
  return true;
}

std::vector<Component> components(const Rows& rows) {
  std::vector<size_t> parent(rows.iterators), active;
  std::iota(parent.begin(), parent.end(), size_t{0});
  for (size_t r = 0; r < rows.rows.size(); ++r) {
    if (implied(rows.rows[r], rows.box)) continue;
    active.push_back(r);
    const Vector& a = rows.rows[r].a;
    size_t first = a.size();
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == 0) continue;
      if (first == a.size()) first = i;
      parent[find_root(parent, i)] = find_root(parent, first);
    }
  }
  std::vector<Component> result;
  std::vector<size_t> index(rows.iterators, rows.iterators);
  for (size_t r : active) {
    const Vector& a = rows.rows[r].a;
    size_t any =
        size_t(std::find_if(a.begin(), a.end(), [](int64_t v) { return v != 0; }) - a.begin());
    size_t root = find_root(parent, any);
    if (index[root] == rows.iterators) {
      index[root] = result.size();
      result.emplace_back();
    }
    result[index[root]].rows.push_back(r);
  }
  for (size_t i = 0; i < rows.iterators; ++i) {
    size_t at = index[find_root(parent, i)];
    if (at != rows.iterators) result[at].iterators.push_back(i);
  }
  return result;
}

Rows part(const Rows& rows, const Component& component) {
  Rows r;
  r.iterators = component.iterators.size();
  for (size_t i : component.iterators) r.box.push_back(rows.box[i]);
  for (size_t at : component.rows) {
    Row row{Vector(r.iterators), rows.rows[at].range};
    for (size_t i = 0; i < r.iterators; ++i) row.a[i] = rows.rows[at].a[component.iterators[i]];
    r.rows.push_back(std::move(row));
  }
  return r;
}

}  // namespace tile::lattice
