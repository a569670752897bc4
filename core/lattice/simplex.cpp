#include "core/lattice/simplex.h"

#include <algorithm>

#include "core/support/control.h"

namespace tile::lattice {

Simplex::Simplex(const Rows& rows) : iterators_(rows.iterators), bounds_(rows.box) {
  for (const Range& r : rows.box) {
    value_.push_back(r.lo != no_lower ? r.lo : r.hi != no_upper ? r.hi : 0);
    nonbasic_.push_back(nonbasic_.size());
  }
  for (const Row& row : rows.rows) {
    WideRational sum = 0;
    for (size_t i = 0; i < iterators_; ++i) {
      if (row.a[i] != 0) sum += WideRational(row.a[i]) * value_[i];
    }
    basic_.push_back(bounds_.size());
    bounds_.push_back(row.range);
    value_.push_back(sum);
    tableau_.emplace_back(row.a.begin(), row.a.end());
  }
}

bool Simplex::integral() const {
  return std::all_of(value_.begin(), value_.begin() + std::ptrdiff_t(iterators_),
                     [](const WideRational& v) { return v.is_integer(); });
}

void Simplex::add_to(std::vector<double>& sum) const {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += value_[i].approximate();
}

bool Simplex::can_move(size_t variable, int direction) const {
  const Range& r = bounds_[variable];
  if (direction > 0) return r.hi == no_upper || value_[variable] < WideRational(r.hi);
  return r.lo == no_lower || value_[variable] > WideRational(r.lo);
}

// The column, of least variable, that moves the basic variable of `row` in direction `sign`.
std::optional<size_t> Simplex::entering(size_t row, int sign) const {
  std::optional<size_t> best;
  for (size_t c = 0; c < nonbasic_.size(); ++c) {
    const WideRational& t = tableau_[row][c];
    if (t.is_zero() || (best && nonbasic_[*best] < nonbasic_[c])) continue;
    if (can_move(nonbasic_[c], t.sign() > 0 ? sign : -sign)) best = c;
  }
  return best;
}

void Simplex::move(size_t column, const WideRational& change) {
  if (change.is_zero()) return;
  value_[nonbasic_[column]] += change;
  for (size_t r = 0; r < basic_.size(); ++r) {
    const WideRational& t = tableau_[r][column];
    if (!t.is_zero()) value_[basic_[r]] += t * change;
  }
}

void Simplex::pivot(size_t row, size_t column) {
  std::vector<WideRational>& p = tableau_[row];
  WideRational inverse = WideRational(1) / p[column];
  for (WideRational& t : p) {
    if (!t.is_zero()) t = -(t * inverse);
  }
  p[column] = inverse;
  for (size_t r = 0; r < tableau_.size(); ++r) {
    if (r == row || tableau_[r][column].is_zero()) continue;
    checkpoint();
    WideRational factor = tableau_[r][column];
    tableau_[r][column] = 0;
    for (size_t c = 0; c < p.size(); ++c) {
      if (!p[c].is_zero()) tableau_[r][c] += factor * p[c];
    }
  }
  std::swap(basic_[row], nonbasic_[column]);
}

bool Simplex::feasible() {
  if (std::any_of(bounds_.begin(), bounds_.end(), [](const Range& r) { return r.empty(); })) {
    return false;
  }
  while (true) {
    std::optional<size_t> worst;
    for (size_t r = 0; r < basic_.size(); ++r) {
      const Range& range = bounds_[basic_[r]];
      const WideRational& v = value_[basic_[r]];
      bool below = range.lo != no_lower && v < WideRational(range.lo);
      bool above = range.hi != no_upper && v > WideRational(range.hi);
      if ((below || above) && (!worst || basic_[r] < basic_[*worst])) worst = r;
    }
    if (!worst) return true;
    size_t variable = basic_[*worst];
    const Range& range = bounds_[variable];
    bool below = range.lo != no_lower && value_[variable] < WideRational(range.lo);
    std::optional<size_t> column = entering(*worst, below ? 1 : -1);
    if (!column) return false;
    WideRational target = below ? range.lo : range.hi;
    move(*column, (target - value_[variable]) / tableau_[*worst][*column]);
    pivot(*worst, *column);
  }
}

Simplex::Step Simplex::longest_step(size_t column, int direction) const {
  Step step;
  const Range& own = bounds_[nonbasic_[column]];
  const WideRational& at = value_[nonbasic_[column]];
  if (direction > 0 && own.hi != no_upper) step.size = WideRational(own.hi) - at;
  if (direction < 0 && own.lo != no_lower) step.size = at - WideRational(own.lo);
  for (size_t r = 0; r < basic_.size(); ++r) {
    const WideRational& t = tableau_[r][column];
    if (t.is_zero()) continue;
    bool rises = (t.sign() > 0) == (direction > 0);
    const Range& range = bounds_[basic_[r]];
    if (rises ? range.hi == no_upper : range.lo == no_lower) continue;
    WideRational room = rises ? WideRational(range.hi) - value_[basic_[r]]
                              : value_[basic_[r]] - WideRational(range.lo);
    WideRational size = room / (t.sign() > 0 ? t : -t);
    bool ties = step.size && size == *step.size && step.leaving_row &&
                basic_[r] < basic_[*step.leaving_row];
    if (!step.size || size < *step.size || ties) step = {size, r};
  }
  return step;
}

// One step; false when nothing stops it.
bool Simplex::climb(size_t column, int direction, size_t objective) {
  Step step = longest_step(column, direction);
  if (!step.size) return false;
  move(column, direction > 0 ? *step.size : -*step.size);
  if (step.leaving_row && basic_[*step.leaving_row] != objective) {
    pivot(*step.leaving_row, column);
  }
  return true;
}

std::optional<size_t> Simplex::row_of(size_t variable) const {
  auto found = std::find(basic_.begin(), basic_.end(), variable);
  if (found == basic_.end()) return std::nullopt;
  return size_t(found - basic_.begin());
}

std::optional<WideRational> Simplex::extreme(size_t variable, int sign) {
  while (can_move(variable, sign)) {
    std::optional<size_t> row = row_of(variable);
    std::optional<size_t> column;
    int direction = sign;
    if (row) {
      column = entering(*row, sign);
      if (!column) break;
      if (tableau_[*row][*column].sign() < 0) direction = -sign;
    } else {
      auto found = std::find(nonbasic_.begin(), nonbasic_.end(), variable);
      column = size_t(found - nonbasic_.begin());
    }
    if (!climb(*column, direction, variable)) return std::nullopt;
  }
  return value_[variable];
}

}  // namespace tile::lattice
