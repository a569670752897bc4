#include "core/interpret/points.h"

#include <algorithm>
#include <optional>

#include "core/support/checked.h"

namespace tile {
namespace {

// Wide enough for any sum of a few products of 64-bit numbers that programs can reach.
using Wide = __int128;

int64_t narrow(Wide value) {
  if (value != static_cast<int64_t>(value)) throw Overflow();
  return static_cast<int64_t>(value);
}

// scale * lo <= form < scale * hi, where form = sum coefficient * x + constant has integer
// coefficients; integral: form is a multiple of scale.
struct Row {
  std::vector<Wide> coefficients;
  Wide constant = 0;
  Wide scale = 1;
  Wide lo = 0;
  Wide hi = 0;
  bool integral = false;

  Wide step() const { return integral ? scale : 1; }
  Wide count() const { return hi <= lo ? 0 : (hi - lo) / step(); }
  bool holds(Wide value) const {
    return value >= lo && value < hi && (!integral || value % scale == 0);
  }
};

Row make_row(const Affine& form, size_t iterators, int64_t lo, int64_t hi, bool integral) {
  int64_t scale = form.constant.den();
  for (const Rational& c : form.coefficients) scale = lcm(scale, c.den());
  Row row;
  for (size_t i = 0; i < iterators; ++i) {
    Rational c = form.coefficient(i);
    row.coefficients.push_back(Wide(c.num()) * (scale / c.den()));
  }
  row.constant = Wide(form.constant.num()) * (scale / form.constant.den());
  row.scale = scale;
  row.lo = Wide(lo) * scale;
  row.hi = Wide(hi) * scale;
  row.integral = integral && scale != 1;  // integers are multiples of one
  return row;
}

std::vector<Row> collect_rows(const BoundProgram& program, const Piece& piece) {
  size_t n = piece.iterators.size();
  std::vector<Row> rows;
  for (size_t i = 0; i < piece.box.size(); ++i) {
    rows.push_back(make_row(iterator_affine(i), n, 0, piece.box[i], true));
  }
  auto add_access = [&](const Access& access) {
    const Shape& shape = program.tensors[access.tensor].shape;
    for (size_t d = 0; d < access.index.size(); ++d) {
      const Index& index = access.index[d];
      if (index.value >= 0 || index.boundary != Boundary::in_range) continue;
      rows.push_back(make_row(index.affine, n, 0, shape[d], true));
    }
  };
  for (const Access& access : piece.stores) add_access(access);
  for (const Access& access : piece.loads) add_access(access);
  for (const Constraint& c : piece.constraints) {
    rows.push_back(make_row(c.form, n, c.lo, c.hi, c.integral));
  }
  return rows;
}

bool same_condition(const Row& a, const Row& b) {
  return a.coefficients == b.coefficients && a.constant == b.constant && a.scale == b.scale &&
         a.lo == b.lo && a.hi == b.hi && a.integral == b.integral;
}

std::vector<Row> without_repeats(std::vector<Row> rows) {
  std::vector<Row> kept;
  for (Row& row : rows) {
    bool seen = std::any_of(kept.begin(), kept.end(),
                            [&](const Row& other) { return same_condition(row, other); });
    if (!seen) kept.push_back(std::move(row));
  }
  return kept;
}

// Rows over the rationals in echelon form, to test independence.
class Independence {
 public:
  bool add(const Row& row) {
    std::vector<Rational> v;
    for (Wide c : row.coefficients) v.emplace_back(narrow(c));
    for (const auto& [pivot, basis] : rows_) {
      if (v[pivot].is_zero()) continue;
      Rational factor = v[pivot];
      for (size_t i = 0; i < v.size(); ++i) v[i] = v[i] - factor * basis[i];
    }
    auto first = std::find_if(v.begin(), v.end(), [](const Rational& c) { return !c.is_zero(); });
    if (first == v.end()) return false;
    Rational lead = *first;
    for (Rational& c : v) c = c / lead;
    rows_.emplace_back(static_cast<size_t>(first - v.begin()), std::move(v));
    return true;
  }

 private:
  std::vector<std::pair<size_t, std::vector<Rational>>> rows_;
};

// The independent rows with the smallest product of value counts (a smallest basis of a matroid:
// greedy), those with few iterators first, so that points are refused early.
std::vector<size_t> choose_rows(const std::vector<Row>& rows, size_t iterators) {
  std::vector<size_t> order(rows.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rows[a].count() < rows[b].count(); });
  Independence independence;
  std::vector<size_t> chosen;
  for (size_t i : order) {
    if (chosen.size() < iterators && independence.add(rows[i])) chosen.push_back(i);
  }
  internal_check(chosen.size() == iterators, "interpret: an iterator is not bounded");
  auto key = [&](size_t i) {
    const std::vector<Wide>& c = rows[i].coefficients;
    auto used = std::count_if(c.begin(), c.end(), [](Wide x) { return x != 0; });
    auto first = std::find_if(c.begin(), c.end(), [](Wide x) { return x != 0; });
    return std::pair(used, first - c.begin());
  };
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](size_t a, size_t b) { return key(a) < key(b); });
  return chosen;
}

// x_i = (sum_t numerator[i][t] * (value of chosen row t, less its constant)) / denominator[i].
struct Inverse {
  std::vector<std::vector<Wide>> numerator;
  std::vector<Wide> denominator;
};

Inverse invert(const std::vector<Row>& rows, const std::vector<size_t>& chosen) {
  size_t n = chosen.size();
  std::vector<std::vector<Rational>> m(n, std::vector<Rational>(2 * n));
  for (size_t r = 0; r < n; ++r) {
    for (size_t c = 0; c < n; ++c) m[r][c] = narrow(rows[chosen[r]].coefficients[c]);
    m[r][n + r] = 1;
  }
  for (size_t c = 0; c < n; ++c) {
    size_t pivot = c;
    while (m[pivot][c].is_zero()) ++pivot;
    std::swap(m[pivot], m[c]);
    Rational lead = m[c][c];
    for (Rational& x : m[c]) x = x / lead;
    for (size_t r = 0; r < n; ++r) {
      if (r == c || m[r][c].is_zero()) continue;
      Rational factor = m[r][c];
      for (size_t k = 0; k < 2 * n; ++k) m[r][k] = m[r][k] - factor * m[c][k];
    }
  }
  Inverse inverse;
  for (size_t i = 0; i < n; ++i) {
    int64_t common = 1;
    for (size_t t = 0; t < n; ++t) common = lcm(common, m[i][n + t].den());
    std::vector<Wide> numerator;
    for (size_t t = 0; t < n; ++t) {
      const Rational& q = m[i][n + t];
      numerator.push_back(Wide(q.num()) * (common / q.den()));
    }
    inverse.numerator.push_back(std::move(numerator));
    inverse.denominator.push_back(common);
  }
  return inverse;
}

class Enumeration {
 public:
  Enumeration(std::vector<Row> rows, size_t iterators, Span where, WorkMeter& meter,
              const std::function<void(std::span<const int64_t>)>& visit)
      : rows_(std::move(rows)), n_(iterators), where_(where), meter_(meter), visit_(visit) {}

  void run() {
    for (const Row& row : rows_) {
      if (row.count() == 0) return;
    }
    chosen_ = choose_rows(rows_, n_);
    inverse_ = invert(rows_, chosen_);
    plan();
    x_.assign(n_, 0);
    partial_.assign((n_ + 1) * n_, 0);
    if (checks_hold(0)) descend(0);
  }

 private:
  // Which iterators and conditions are settled once the first t chosen rows have values.
  void plan() {
    std::vector<size_t> settled_at(n_, 0);
    settled_.assign(n_ + 1, {});
    checks_.assign(n_ + 1, {});
    for (size_t i = 0; i < n_; ++i) {
      for (size_t t = 0; t < n_; ++t) {
        if (inverse_.numerator[i][t] != 0) settled_at[i] = t + 1;
      }
      settled_[settled_at[i]].push_back(i);
    }
    for (size_t r = 0; r < rows_.size(); ++r) {
      if (std::find(chosen_.begin(), chosen_.end(), r) != chosen_.end()) continue;
      size_t depth = 0;
      for (size_t i = 0; i < n_; ++i) {
        if (rows_[r].coefficients[i] != 0) depth = std::max(depth, settled_at[i]);
      }
      checks_[depth].push_back(r);
    }
  }

  bool checks_hold(size_t depth) const {
    for (size_t r : checks_[depth]) {
      const Row& row = rows_[r];
      Wide value = row.constant;
      for (size_t i = 0; i < n_; ++i) value += row.coefficients[i] * x_[i];
      if (!row.holds(value)) return false;
    }
    return true;
  }

  bool settle(size_t depth) {
    const Wide* sums = &partial_[depth * n_];
    for (size_t i : settled_[depth]) {
      Wide d = inverse_.denominator[i];
      if (d == 1) {
        x_[i] = static_cast<int64_t>(sums[i]);
      } else {
        if (sums[i] % d != 0) return false;
        x_[i] = static_cast<int64_t>(sums[i] / d);
      }
    }
    return checks_hold(depth);
  }

  void descend(size_t depth) {
    if (depth == n_) {
      visit_(x_);
      return;
    }
    const Row& row = rows_[chosen_[depth]];
    const Wide* sums = &partial_[depth * n_];
    Wide* next = &partial_[(depth + 1) * n_];
    for (Wide value = row.lo; value < row.hi; value += row.step()) {
      meter_.visit(where_);
      for (size_t i = 0; i < n_; ++i) {
        next[i] = sums[i] + inverse_.numerator[i][depth] * (value - row.constant);
      }
      if (settle(depth + 1)) descend(depth + 1);
    }
  }

  std::vector<Row> rows_;
  size_t n_;
  Span where_;
  WorkMeter& meter_;
  const std::function<void(std::span<const int64_t>)>& visit_;
  std::vector<size_t> chosen_;
  Inverse inverse_;
  std::vector<std::vector<size_t>> settled_;
  std::vector<std::vector<size_t>> checks_;
  std::vector<int64_t> x_;
  std::vector<Wide> partial_;  // n_ + 1 rows of partial sums of the numerators
};

}  // namespace

void WorkMeter::fail_visits(Span where) const {
  fail_limit(Stage::compile, where,
             "more than " + std::to_string(limit_) + " points have to be visited", "limit_points");
}

void for_each_point(const BoundProgram& program, const Piece& piece, Span where, WorkMeter& meter,
                    const std::function<void(std::span<const int64_t>)>& visit) {
  std::vector<Row> rows = without_repeats(collect_rows(program, piece));
  Enumeration(std::move(rows), piece.iterators.size(), where, meter, visit).run();
}

}  // namespace tile
