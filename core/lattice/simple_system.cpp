#include "core/lattice/simple_system.h"

#include <algorithm>
#include <cstdlib>

#include "core/support/checked.h"

namespace tile::lattice {
namespace {

bool uses(const Affine& form, size_t iterator) { return !form.coefficient(iterator).is_zero(); }

size_t count_used(const Affine& form) {
  return static_cast<size_t>(std::count_if(form.coefficients.begin(), form.coefficients.end(),
                                           [](const Rational& c) { return !c.is_zero(); }));
}

bool same_slopes(const Affine& a, const Affine& b) {
  return (a - b).is_constant() && (a - b).constant.is_integer();
}

// At most so far are neighbours of the values of the form apart whose iterators have these
// intervals; `without`: an iterator that is left out.
int64_t widest_gap(const Affine& form, const std::vector<Interval>& values,
                   std::optional<size_t> without) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // of each iterator: its factor, how many
  for (size_t i = 0; i < form.coefficients.size(); ++i) {
    if (i == without || !uses(form, i)) continue;
    steps.emplace_back(std::abs(form.coefficients[i].num()), values[i].hi - values[i].lo);
  }
  std::sort(steps.begin(), steps.end());
  int64_t gap = 1, reach = 0;
  for (const auto& [factor, count] : steps) {
    if (count > 0) gap = std::max(gap, factor - reach);
    reach = checked_add(reach, checked_mul(factor, count));
  }
  return gap;
}

// Narrows an iterator to the values with which lo <= form < hi for some values of the others.
Interval projection(const Condition& c, const std::vector<Interval>& values, size_t iterator) {
  Affine others = c.form;
  others.coefficients[iterator] = Rational(0);
  Interval rest = sum_of(others, values);
  int64_t factor = c.form.coefficients[iterator].num();
  int64_t first = checked_sub(c.lo, rest.hi), last = checked_sub(checked_sub(c.hi, 1), rest.lo);
  if (factor < 0) {
    factor = -factor;
    std::swap(first, last);
    first = -first;
    last = -last;
  }
  return {std::max(values[iterator].lo, -floor_div(-first, factor)),
          std::min(values[iterator].hi, floor_div(last, factor))};
}

}  // namespace

Interval sum_of(const Affine& form, const std::vector<Interval>& values) {
  Rational lo = form.constant, hi = form.constant;
  for (size_t i = 0; i < form.coefficients.size(); ++i) {
    const Rational& c = form.coefficients[i];
    if (c.is_zero()) continue;
    Rational first = c * Rational(values[i].lo), last = c * Rational(values[i].hi);
    lo += std::min(first, last);
    hi += std::max(first, last);
  }
  return {lo.ceil(), hi.floor()};
}

std::optional<SimpleSystem> SimpleSystem::of(const System& system, const Bounds& bounds) {
  if (bounds.empty || bounds.unbounded) return std::nullopt;
  for (const Interval& interval : bounds.box) {
    if (interval.empty()) return std::nullopt;
  }
  SimpleSystem simple;
  for (const Condition& c : system.conditions) {
    if (!c.form.is_integral()) return std::nullopt;
    Interval values = sum_of(c.form, bounds.box);
    bool implied = values.lo >= c.lo && values.hi < c.hi;
    // What is said of one iterator is in the bounds.
    if (implied || count_used(c.form) <= 1) continue;
    if (!tie(simple.tied_, c)) return std::nullopt;
  }
  return simple;
}

bool SimpleSystem::tie(std::vector<Condition>& tied, const Condition& c) {
  for (Condition& other : tied) {
    if (other.form == c.form) {
      other.lo = std::max(other.lo, c.lo);
      other.hi = std::min(other.hi, c.hi);
      return true;
    }
    for (size_t i = 0; i < c.form.coefficients.size(); ++i) {
      if (uses(c.form, i) && uses(other.form, i)) return false;
    }
  }
  tied.push_back(c);
  return true;
}

std::optional<SimpleSystem::Part> SimpleSystem::part(std::vector<Interval> values,
                                                     const std::vector<Condition>& more) const {
  Part part;
  part.tied_ = tied_;
  part.projected_ = values;
  for (const Condition& c : more) {
    if (!tie(part.tied_, c)) return std::nullopt;
  }
  bool none = std::any_of(values.begin(), values.end(),
                          [](const Interval& interval) { return interval.empty(); });
  for (const Condition& c : part.tied_) {
    for (size_t i = 0; i < values.size() && !none; ++i) {
      if (!uses(c.form, i)) continue;
      // A window of the others' values that is wider than their gaps has one in it.
      if (widest_gap(c.form, values, i) > c.hi - c.lo) return std::nullopt;
      part.projected_[i] = projection(c, values, i);
    }
  }
  part.given_ = std::move(values);
  return part;
}

std::optional<Interval> SimpleSystem::Part::of(const Affine& form) const {
  if (!form.is_integral()) return std::nullopt;
  for (const Condition& c : tied_) {
    size_t common = 0;
    for (size_t i = 0; i < form.coefficients.size(); ++i) {
      common += uses(form, i) && uses(c.form, i);
    }
    if (common < 2) continue;
    if (!same_slopes(form, c.form) || widest_gap(form, given_, std::nullopt) > 1) {
      return std::nullopt;
    }
    int64_t shift = (form - c.form).constant.num();
    Interval all = sum_of(form, given_);
    return Interval{std::max(all.lo, checked_add(c.lo, shift)),
                    std::min(all.hi, checked_sub(checked_add(c.hi, shift), 1))};
  }
  return sum_of(form, projected_);
}

}  // namespace tile::lattice
