#include <algorithm>
#include <numeric>

#include "core/lattice/rows.h"
#include "core/support/control.h"
#include "core/support/diagnostic.h"

namespace tile::lattice {
namespace {

Matrix output_rows(size_t iterators, std::span<const Affine> outputs) {
  Matrix rows;
  for (const Affine& form : outputs) {
    internal_check(form.is_integral(), "an output access is integral");
    Vector row(iterators, 0);
    for (size_t i = 0; i < iterators; ++i) row[i] = form.coefficient(i).num();
    rows.push_back(std::move(row));
  }
  return rows;
}

Wide size_of(int64_t v) { return v < 0 ? -Wide(v) : Wide(v); }

// Whether the row's value tells all the `open` iterators apart: sorted by size, each coefficient
// exceeds what the smaller ones can add up to (a mixed-radix number). Without a box only a single
// iterator is told.
bool mixed_radix(const Vector& row, const std::vector<bool>& told, std::span<const Interval> box) {
  std::vector<size_t> open;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] != 0 && !told[i]) open.push_back(i);
  }
  if (open.size() <= 1 || box.empty()) return open.size() <= 1;
  auto values = [&](size_t i) { return Wide(box[i].hi) - box[i].lo; };
  std::sort(open.begin(), open.end(), [&](size_t a, size_t b) {
    return size_of(row[a]) != size_of(row[b]) ? size_of(row[a]) < size_of(row[b])
                                              : values(a) < values(b);
  });
  Wide span = 0;
  for (size_t i : open) {
    if (values(i) > 0 && size_of(row[i]) <= span) return false;
    Wide part;
    if (__builtin_mul_overflow(size_of(row[i]), values(i), &part)) throw Overflow();
    span = wide_add(span, part);
  }
  return true;
}

// The iterators that some output dimension tells, given the ones told before.
std::vector<bool> told_iterators(const Matrix& rows, size_t iterators,
                                 std::span<const Interval> box) {
  std::vector<bool> told(iterators, false);
  for (bool changed = true; changed;) {
    changed = false;
    for (const Vector& row : rows) {
      if (!mixed_radix(row, told, box)) continue;
      for (size_t i = 0; i < iterators; ++i) {
        if (row[i] == 0 || told[i]) continue;
        told[i] = true;
        changed = true;
      }
    }
  }
  return told;
}

// Groups the iterators that are still entangled by the output dimensions that they share.
std::vector<std::vector<size_t>> entangled(const Matrix& rows, const std::vector<bool>& told) {
  std::vector<size_t> label(told.size());
  std::iota(label.begin(), label.end(), size_t{0});
  std::vector<bool> present(told.size(), false);
  for (const Vector& row : rows) {
    size_t first = told.size();
    for (size_t i = 0; i < told.size(); ++i) {
      if (row[i] == 0 || told[i]) continue;
      present[i] = true;
      if (first == told.size()) first = label[i];
      std::replace(label.begin(), label.end(), size_t(label[i]), first);
    }
  }
  std::vector<std::vector<size_t>> groups;
  for (size_t root = 0; root < told.size(); ++root) {
    std::vector<size_t> group;
    for (size_t i = 0; i < told.size(); ++i) {
      if (present[i] && label[i] == root) group.push_back(i);
    }
    if (!group.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

Wide column_dot(const Matrix& m, size_t a, size_t b) {
  Wide sum = 0;
  for (const Vector& row : m) sum = wide_add(sum, Wide(row[a]) * row[b]);
  return sum;
}

// Takes from column `to` the multiple of column `by` that shortens it most; false when it is short
// already.
bool shorten(Matrix& m, size_t to, size_t by) {
  checkpoint();
  Wide square = column_dot(m, by, by), product = column_dot(m, to, by);
  Wide size = product < 0 ? -product : product;
  Wide q = wide_add(size, size) <= square ? 0 : (size + square / 2) / square;
  if (q == 0) return false;
  int64_t factor = narrow(product < 0 ? -q : q);
  for (Vector& row : m) row[to] = checked_sub(row[to], checked_mul(factor, row[by]));
  return true;
}

// Short reduction vectors, and parallel dimensions short modulo them: small coefficients in the
// accesses.
void shorten_columns(Matrix& transform, size_t rank) {
  size_t columns = transform.size();
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t a = rank; a < columns; ++a) {
      for (size_t b = rank; b < columns; ++b) {
        if (a != b && shorten(transform, a, b)) changed = true;
      }
    }
  }
  for (size_t a = 0; a < rank; ++a) {
    for (size_t b = rank; b < columns; ++b) shorten(transform, a, b);
  }
}

// A change of basis within one group: iterators at the group's places, the parallel dimensions
// first.
void separate(const Matrix& rows, const std::vector<size_t>& group, Sublattice& change,
              std::vector<bool>& parallel_dim) {
  Matrix own;
  for (const Vector& row : rows) {
    Vector part;
    for (size_t i : group) part.push_back(row[i]);
    if (gcd_of(part) != 0) own.push_back(std::move(part));
  }
  Hermite h = hermite_normal_form(own, group.size());
  for (size_t c = 0; c < h.rank; ++c) parallel_dim[group[c]] = true;
  if (h.rank == group.size()) return;
  shorten_columns(h.transform, h.rank);
  for (size_t i = 0; i < group.size(); ++i) {
    for (size_t j = 0; j < group.size(); ++j) change.basis[group[i]][group[j]] = h.transform[i][j];
  }
}

}  // namespace

Ownership own_outputs(size_t iterators, std::span<const Affine> outputs,
                      std::span<const Interval> box) {
  Matrix rows = output_rows(iterators, outputs);
  std::vector<bool> parallel_dim = told_iterators(rows, iterators, box);
  Sublattice change = whole_lattice(iterators);
  for (const std::vector<size_t>& group : entangled(rows, parallel_dim)) {
    separate(rows, group, change, parallel_dim);
  }
  Sublattice order{iterators, Vector(iterators, 0), Matrix(iterators, Vector(iterators, 0))};
  size_t at = 0;
  for (bool parallel_dims : {true, false}) {
    for (size_t i = 0; i < iterators; ++i) {
      if (parallel_dim[i] == parallel_dims) order.basis[i][at++] = 1;
    }
  }
  Ownership result;
  result.substitution = to_substitution(compose(change, order));
  result.parallel_dims = size_t(std::count(parallel_dim.begin(), parallel_dim.end(), true));
  return result;
}

Ownership own_outputs(size_t iterators, std::span<const Affine> outputs) {
  return own_outputs(iterators, outputs, {});
}

}  // namespace tile::lattice
