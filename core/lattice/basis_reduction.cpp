// Lenstra-Lenstra-Lovasz reduction (Cohen, "A Course in Computational Algebraic Number Theory",
// 2.6), to steer the search only: floating point decides which column operations to make, the
// operations themselves are exact, so any outcome is a correct change of basis.
#include <algorithm>
#include <cmath>

#include "core/lattice/rows.h"
#include "core/support/control.h"

namespace tile::lattice {
namespace {

using Column = std::vector<double>;

double product(const Column& a, const Column& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

class Reduction {
 public:
  Reduction(std::vector<Column> columns)
      : columns_(std::move(columns)), orthogonal_(columns_), squares_(columns_.size(), 0) {
    transform_ = whole_lattice(columns_.size()).basis;
  }

  Matrix run() {
    constexpr int step_limit = 2000;
    constexpr double lovasz = 0.75;
    size_t k = 1;
    for (int step = 0; k < columns_.size() && step < step_limit; ++step) {
      orthogonalise(k - 1);
      if (!shorten(k)) break;
      double mu = projection(k, k - 1);
      if (squares_[k] >= (lovasz - mu * mu) * squares_[k - 1]) {
        ++k;
        continue;
      }
      std::swap(columns_[k], columns_[k - 1]);
      for (Vector& row : transform_) std::swap(row[k], row[k - 1]);
      k = std::max<size_t>(k - 1, 1);
    }
    return std::move(transform_);
  }

 private:
  double projection(size_t k, size_t j) const {
    checkpoint();
    return squares_[j] > 0 ? product(columns_[k], orthogonal_[j]) / squares_[j] : 0;
  }

  void orthogonalise(size_t k) {
    orthogonal_[k] = columns_[k];
    for (size_t j = 0; j < k; ++j) {
      double mu = projection(k, j);
      for (size_t r = 0; r < orthogonal_[k].size(); ++r) {
        orthogonal_[k][r] -= mu * orthogonal_[j][r];
      }
    }
    squares_[k] = product(orthogonal_[k], orthogonal_[k]);
  }

  // Takes multiples of the earlier columns from column k; false when numbers grow too large.
  bool shorten(size_t k) {
    constexpr double largest = 1e9;
    for (size_t j = k; j-- > 0;) {
      double q = std::round(projection(k, j));
      if (q == 0) continue;
      if (!(std::abs(q) < largest)) return false;
      for (Vector& row : transform_) {
        if (std::abs(double(row[k])) > largest || std::abs(double(row[j])) > largest) return false;
      }
      for (Vector& row : transform_) row[k] -= int64_t(q) * row[j];
      for (size_t r = 0; r < columns_[k].size(); ++r) columns_[k][r] -= q * columns_[j][r];
    }
    orthogonalise(k);
    return true;
  }

  std::vector<Column> columns_, orthogonal_;
  std::vector<double> squares_;
  Matrix transform_;
};

double weight(const Range& range) {
  return range.bounded() ? 1 / (double(range.hi) - double(range.lo) + 1) : 0;
}

}  // namespace

Sublattice short_basis(const Rows& rows) {
  std::vector<Column> columns(rows.iterators);
  for (size_t i = 0; i < rows.iterators; ++i) {
    for (size_t j = 0; j < rows.iterators; ++j) {
      columns[i].push_back(i == j ? weight(rows.box[i]) : 0);
    }
    for (const Row& row : rows.rows) columns[i].push_back(double(row.a[i]) * weight(row.range));
  }
  Sublattice change = whole_lattice(rows.iterators);
  change.basis = Reduction(std::move(columns)).run();
  return change;
}

}  // namespace tile::lattice
