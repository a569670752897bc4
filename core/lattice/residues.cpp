#include "core/lattice/residues.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/support/choices.h"
#include "core/support/diagnostic.h"

namespace tile::lattice {
namespace {

// A row that may bound reduction iterators: its two parts and how many values it takes.
struct Candidate {
  Vector parallel_dim_part, reduction_part;
  double values = 0;
  bool touches_parallel_dims = false;
};

// Rows chosen for one group of reduction iterators.
struct Choice {
  double cost = 0;
  Matrix transform;                           // over the group
  std::vector<std::vector<Rational>> drifts;  // by parallel dimension; may be fractional
  Vector moduli;
  std::vector<size_t> rows;  // the candidates that were taken, in order
};

// Splitting must at least save this much: more pieces are more code, and a shifted reduction
// iterator makes other conditions depend on the parallel dimensions.
constexpr double split_price = 1.5;
constexpr double class_price = 0.5;  // for each class: s of them should save a factor of s
constexpr double shift_price = 1.1;
constexpr size_t subset_limit = 600;

std::vector<Candidate> candidates(const Rows& rows, size_t parallel_dims) {
  std::vector<Candidate> result;
  auto add = [&](const Vector& a, const Range& range) {
    Candidate c;
    auto border = a.begin() + std::ptrdiff_t(parallel_dims);
    c.parallel_dim_part.assign(a.begin(), border);
    c.reduction_part.assign(border, a.end());
    if (gcd_of(c.reduction_part) == 0) return;
    c.touches_parallel_dims = gcd_of(c.parallel_dim_part) != 0;
    c.values = double(Wide(range.hi) - range.lo + 1);
    result.push_back(std::move(c));
  };
  for (size_t i = parallel_dims; i < rows.iterators; ++i) {
    Vector unit(rows.iterators, 0);
    unit[i] = 1;
    add(unit, rows.box[i]);
  }
  for (const Row& row : rows.rows) {
    Range reach = row_values(row.a, rows.box);
    add(row.a, {std::max(reach.lo, row.range.lo), std::min(reach.hi, row.range.hi)});
  }
  return result;
}

// Groups of reduction iterators that share a candidate.
std::vector<std::vector<size_t>> reduction_groups(const std::vector<Candidate>& all,
                                                  size_t reductions) {
  std::vector<size_t> label(reductions);
  std::iota(label.begin(), label.end(), size_t{0});
  for (const Candidate& c : all) {
    size_t first = reductions;
    for (size_t i = 0; i < reductions; ++i) {
      if (c.reduction_part[i] == 0) continue;
      if (first == reductions) first = label[i];
      std::replace(label.begin(), label.end(), size_t(label[i]), first);
    }
  }
  std::vector<std::vector<size_t>> groups(reductions);
  for (size_t i = 0; i < reductions; ++i) groups[label[i]].push_back(i);
  std::erase_if(groups, [](const std::vector<size_t>& g) { return g.empty(); });
  return groups;
}

// One non-zero entry in each row and column.
bool is_monomial(const Matrix& m) {
  std::vector<bool> used(m.size(), false);
  for (const Vector& row : m) {
    size_t nonzero = 0;
    for (size_t c = 0; c < m.size(); ++c) {
      if (row[c] == 0) continue;
      if (used[c]) return false;
      used[c] = true;
      ++nonzero;
    }
    if (nonzero != 1) return false;
  }
  return true;
}

// A unimodular transform that makes `rows` triangular with a positive diagonal, or only flips signs
// where the rows have one iterator each. `rows` becomes rows * transform; nullopt: singular.
std::optional<Matrix> triangular(Matrix& rows) {
  if (!is_monomial(rows)) {
    Hermite h = hermite_normal_form(rows, rows.size());
    if (h.rank < rows.size()) return std::nullopt;
    rows = std::move(h.form);
    return std::move(h.transform);
  }
  Matrix transform = whole_lattice(rows.size()).basis;
  for (Vector& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      if (row[c] >= 0) continue;
      row[c] = checked_neg(row[c]);
      transform[c][c] = -1;
    }
  }
  return transform;
}

// Solves rows * y = v for triangular or monomial rows.
std::vector<Rational> solve(const Matrix& rows, const Vector& v) {
  std::vector<Rational> y(rows.size());
  std::vector<bool> solved(rows.size(), false);
  for (size_t r = 0; r < rows.size(); ++r) {
    Rational left = v[r];
    size_t pivot = rows.size();
    for (size_t c = 0; c < rows.size(); ++c) {
      if (rows[r][c] == 0) continue;
      if (solved[c]) {
        left -= Rational(rows[r][c]) * y[c];
      } else {
        pivot = c;
      }
    }
    internal_check(pivot != rows.size(), "the rows are triangular");
    y[pivot] = left / Rational(rows[r][pivot]);
    solved[pivot] = true;
  }
  return y;
}

// How many points the box of the new iterators has, on average over the classes: a row's values,
// widened by the columns before its pivot, in steps of the pivot.
double box_points(const Matrix& rows, const std::vector<double>& values) {
  double product = 1;
  std::vector<double> extent(rows.size(), 0);  // 0: not seen yet
  for (size_t r = 0; r < rows.size(); ++r) {
    double reach = values[r];
    size_t pivot = 0;
    for (size_t c = 0; c < rows.size(); ++c) {
      if (rows[r][c] == 0) continue;
      if (extent[c] == 0) pivot = c;
      if (extent[c] > 1) reach += double(rows[r][c]) * (extent[c] - 1);
    }
    extent[pivot] = reach / double(rows[r][pivot]);
    product *= extent[pivot];
  }
  return product;
}

std::optional<Choice> evaluate(const std::vector<Candidate>& all, const std::vector<size_t>& group,
                               const std::vector<size_t>& chosen, size_t parallel_dims) {
  Matrix rows;
  std::vector<double> values;
  for (size_t c : chosen) {
    Vector row;
    values.push_back(all[c].values);
    for (size_t i : group) row.push_back(all[c].reduction_part[i]);
    rows.push_back(std::move(row));
  }
  std::optional<Matrix> transform = triangular(rows);
  if (!transform) return std::nullopt;
  Choice choice;
  choice.rows = chosen;
  choice.transform = std::move(*transform);
  choice.cost = box_points(rows, values);
  for (size_t c : chosen) choice.cost *= all[c].touches_parallel_dims ? shift_price : 1;
  for (size_t i = 0; i < parallel_dims; ++i) {
    Vector v;
    for (size_t c : chosen) v.push_back(all[c].parallel_dim_part[i]);
    choice.drifts.push_back(solve(rows, v));
    int64_t modulus = 1;
    for (const Rational& y : choice.drifts.back()) modulus = lcm(modulus, y.den());
    choice.moduli.push_back(modulus);
  }
  return choice;
}

class Chooser {
 public:
  Chooser(const Rows& rows, size_t parallel_dims, int64_t class_limit, const std::string& of)
      : rows_(rows),
        of_(of),
        all_(candidates(rows, parallel_dims)),
        parallel_dims_(parallel_dims),
        limit_(class_limit) {
    moduli_.assign(parallel_dims, 1);
  }

  const std::vector<Candidate>& all() const { return all_; }
  const Vector& moduli() const { return moduli_; }
  int64_t classes() const { return classes_; }

  // nullopt: no point was found on the way.
  std::optional<Choice> choose(const std::vector<size_t>& group) {
    best_.reset();
    std::vector<size_t> places;
    for (size_t k = 0; k < group.size() && !empty_; ++k) {
      auto decide = [&] { return search(group) ? best_->rows[k] : 0; };
      places.push_back(chosen(of_ + " row " + std::to_string(k), decide));
    }
    bool taken = empty_ || best_ || take(group, places) || search(group);
    if (!taken || empty_) return std::nullopt;
    for (size_t i = 0; i < parallel_dims_; ++i) moduli_[i] = lcm(moduli_[i], best_->moduli[i]);
    classes_ = class_count(best_->moduli);
    return std::move(*best_);
  }

 private:
  // Candidates with their values; false: there is no point.
  bool weigh() {
    if (weighed_ || empty_) return !empty_;
    Rows relaxed = rows_;
    empty_ = !relax(relaxed);
    if (empty_) return false;
    all_ = candidates(relaxed, parallel_dims_);
    weighed_ = true;
    return true;
  }

  bool search(const std::vector<size_t>& group) {
    if (best_) return true;
    if (!weigh()) return false;
    std::vector<size_t> usable;
    for (size_t c = 0; c < all_.size(); ++c) {
      if (std::any_of(group.begin(), group.end(),
                      [&](size_t i) { return all_[c].reduction_part[i] != 0; })) {
        usable.push_back(c);
      }
    }
    if (subsets(usable.size(), group.size()) > subset_limit) {
      usable.resize(group.size());  // the iterators' own intervals come first
    }
    std::vector<size_t> picked;
    enumerate(usable, 0, group, picked);
    internal_check(best_.has_value(), "every reduction iterator has an interval");
    return true;
  }

  // The rows of another size, which may be none of this system's; false then.
  bool take(const std::vector<size_t>& group, const std::vector<size_t>& places) {
    bool there =
        std::all_of(places.begin(), places.end(), [&](size_t c) { return c < all_.size(); });
    if (!there) return false;
    best_ = evaluate(all_, group, places, parallel_dims_);
    if (best_ && class_count(best_->moduli) > limit_) best_.reset();
    return best_.has_value();
  }

  static size_t subsets(size_t n, size_t k) {
    size_t count = 1;
    for (size_t i = 0; i < k && count <= subset_limit; ++i) count = count * (n - i) / (i + 1);
    return count;
  }

  // With these moduli in addition; limit + 1 stands for all that is too many.
  int64_t class_count(const Vector& moduli) const {
    Wide count = 1;
    for (size_t i = 0; i < parallel_dims_; ++i) {
      count *= lcm(moduli_[i], moduli[i]);
      if (count > limit_) return checked_add(limit_, 1);
    }
    return static_cast<int64_t>(count);
  }

  void enumerate(const std::vector<size_t>& usable, size_t from, const std::vector<size_t>& group,
                 std::vector<size_t>& picked) {
    if (picked.size() == group.size()) {
      std::vector<size_t> order = picked;  // the first rows have the tightest boxes
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return all_[a].values < all_[b].values; });
      consider(evaluate(all_, group, order, parallel_dims_));
      return;
    }
    size_t needed = group.size() - picked.size();
    for (size_t i = from; i + needed <= usable.size(); ++i) {
      picked.push_back(usable[i]);
      enumerate(usable, i + 1, group, picked);
      picked.pop_back();
    }
  }

  void consider(std::optional<Choice> choice) {
    if (!choice) return;
    bool splits =
        std::any_of(choice->moduli.begin(), choice->moduli.end(), [](int64_t m) { return m != 1; });
    int64_t count = class_count(choice->moduli);
    if (splits && count > limit_) return;
    if (count > classes_) {
      choice->cost *= std::max(split_price, class_price * double(count / classes_));
    }
    if (!best_ || choice->cost < best_->cost) best_ = std::move(choice);
  }

  const Rows& rows_;
  const std::string& of_;
  std::vector<Candidate> all_;  // with values once they are weighed
  size_t parallel_dims_;
  int64_t limit_;
  bool weighed_ = false, empty_ = false;
  int64_t classes_ = 1;
  Vector moduli_;
  std::optional<Choice> best_;
};

}  // namespace

std::optional<Residues> choose_residues(const Rows& rows, size_t parallel_dims, int64_t class_limit,
                                        const std::string& of) {
  size_t reductions = rows.iterators - parallel_dims;
  Chooser chooser(rows, parallel_dims, class_limit, of);
  auto groups = reduction_groups(chooser.all(), reductions);
  std::vector<Choice> choices;
  for (const std::vector<size_t>& group : groups) {
    std::optional<Choice> choice = chooser.choose(group);
    if (!choice) return std::nullopt;
    choices.push_back(std::move(*choice));
  }
  Residues result;
  result.moduli = chooser.moduli();
  result.classes = chooser.classes();
  result.transform.assign(reductions, Vector(reductions, 0));
  result.drifts.assign(parallel_dims, Vector(reductions, 0));
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t i = 0; i < groups[g].size(); ++i) {
      for (size_t j = 0; j < groups[g].size(); ++j) {
        result.transform[groups[g][i]][groups[g][j]] = choices[g].transform[i][j];
      }
      for (size_t o = 0; o < parallel_dims; ++o) {
        Rational drift = choices[g].drifts[o][i] * Rational(result.moduli[o]);
        result.drifts[o][groups[g][i]] = drift.num();
      }
    }
  }
  return result;
}

}  // namespace tile::lattice
