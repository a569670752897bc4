#include <algorithm>

#include "core/lattice/rows.h"
#include "core/support/control.h"

namespace tile::lattice {
namespace {

// The multiple of b nearest to a, divided by b.
int64_t nearest_quotient(int64_t a, int64_t b) {
  int64_t q = trunc_div(a, b);
  Wide r = Wide(a) - Wide(q) * b;
  Wide twice = r < 0 ? -2 * r : 2 * r, size = b < 0 ? -Wide(b) : Wide(b);
  if (twice > size) q = checked_add(q, (r < 0) == (b < 0) ? 1 : -1);
  return q;
}

// The representative of `value` modulo `modulus` that is nearest to 0.
int64_t balanced(Wide value, int64_t modulus) {
  Wide r = value % modulus;
  if (r < 0) r += modulus;
  if (2 * r > modulus) r -= modulus;
  return static_cast<int64_t>(r);
}

int64_t inverse_modulo(int64_t value, int64_t modulus) {
  Wide r0 = modulus, r1 = balanced(value, modulus), s0 = 0, s1 = 1;
  if (r1 < 0) r1 += modulus;
  while (r1 != 0) {
    Wide q = r0 / r1, r2 = r0 - q * r1, s2 = s0 - q * s1;
    r0 = r1, r1 = r2, s0 = s1, s1 = s2;
  }
  return balanced(s0, modulus);
}

void add_column(Matrix& basis, size_t to, size_t from, int64_t factor) {
  for (Vector& row : basis) {
    if (row[from] != 0) row[to] = checked_add(row[to], checked_mul(factor, row[from]));
  }
}

// Of least size; the last one of those, so that the first iterators (mostly the outputs') stay.
size_t find_pivot(const Vector& alpha) {
  size_t pivot = alpha.size();
  for (size_t j = 0; j < alpha.size(); ++j) {
    if (alpha[j] == 0) continue;
    if (pivot == alpha.size() ||
        (alpha[j] < 0 ? -Wide(alpha[j]) : Wide(alpha[j])) <=
            (alpha[pivot] < 0 ? -Wide(alpha[pivot]) : Wide(alpha[pivot]))) {
      pivot = j;
    }
  }
  return pivot;
}

// Column operations on the basis until alpha has one non-zero entry; returns where it is.
size_t concentrate(Matrix& basis, Vector& alpha) {
  while (true) {
    size_t pivot = find_pivot(alpha);
    bool done = true;
    for (size_t j = 0; j < alpha.size(); ++j) {
      if (j == pivot || alpha[j] == 0) continue;
      int64_t q = nearest_quotient(alpha[j], alpha[pivot]);
      alpha[j] = checked_sub(alpha[j], checked_mul(q, alpha[pivot]));
      add_column(basis, j, pivot, checked_neg(q));
      done = done && alpha[j] == 0;
    }
    if (done) return pivot;
  }
}

void shift(Sublattice& lattice, size_t column, int64_t factor) {
  for (size_t i = 0; i < lattice.basis.size(); ++i) {
    int64_t step = checked_mul(lattice.basis[i][column], factor);
    lattice.offset[i] = checked_add(lattice.offset[i], step);
  }
}

// The congruence in z.
Congruence pulled_back(const Congruence& congruence, const Sublattice& lattice) {
  Congruence r;
  r.modulus = congruence.modulus;
  auto keep = [&](Wide v) { return r.modulus == 0 ? narrow(v) : balanced(v, r.modulus); };
  r.constant = keep(wide_add(dot(congruence.a, lattice.offset), congruence.constant));
  for (size_t j = 0; j < lattice.columns; ++j) {
    Wide sum = 0;
    for (size_t i = 0; i < congruence.a.size(); ++i) {
      sum = wide_add(sum, Wide(congruence.a[i]) * lattice.basis[i][j]);
    }
    r.a.push_back(keep(sum));
  }
  return r;
}

bool solve_equation(Sublattice& lattice, size_t pivot, int64_t alpha, int64_t constant) {
  if (floor_mod(constant, alpha) != 0) return false;
  shift(lattice, pivot, checked_neg(trunc_div(constant, alpha)));
  for (Vector& row : lattice.basis) row.erase(row.begin() + std::ptrdiff_t(pivot));
  --lattice.columns;
  return true;
}

bool solve_residue(Sublattice& lattice, size_t pivot, int64_t alpha, int64_t constant,
                   int64_t modulus) {
  int64_t common = gcd(alpha, modulus);
  if (constant % common != 0) return false;
  int64_t step = modulus / common;
  if (step == 1) return true;
  Wide z = -Wide(constant / common) * inverse_modulo(alpha / common, step);
  shift(lattice, pivot, balanced(z, step));
  for (Vector& row : lattice.basis) row[pivot] = checked_mul(row[pivot], step);
  return true;
}

// Keeps the entries of a basis small, so that what follows does not overflow.
void shorten(Sublattice& lattice, const Rows& rows) {
  constexpr int64_t small = 1000;
  bool grown = false;
  for (const Vector& row : lattice.basis) {
    for (int64_t v : row) grown = grown || v > small || v < -small;
  }
  if (!grown) return;
  Rows columns;  // each iterator's interval, as rows over the lattice
  columns.iterators = lattice.columns;
  columns.box.resize(lattice.columns);
  for (size_t i = 0; i < lattice.basis.size(); ++i) {
    columns.rows.push_back({lattice.basis[i], rows.box[i]});
  }
  lattice = compose(lattice, short_basis(columns));
}

}  // namespace

Sublattice whole_lattice(size_t iterators) {
  Sublattice r{iterators, Vector(iterators, 0), Matrix(iterators, Vector(iterators, 0))};
  for (size_t i = 0; i < iterators; ++i) r.basis[i][i] = 1;
  return r;
}

bool restrict_lattice(Sublattice& lattice, const Congruence& congruence) {
  Congruence c = pulled_back(congruence, lattice);
  if (std::all_of(c.a.begin(), c.a.end(), [](int64_t v) { return v == 0; })) {
    return c.constant == 0;
  }
  size_t pivot = concentrate(lattice.basis, c.a);
  if (c.modulus == 0) return solve_equation(lattice, pivot, c.a[pivot], c.constant);
  return solve_residue(lattice, pivot, c.a[pivot], c.constant, c.modulus);
}

Rows transform(const Rows& rows, const Sublattice& lattice) {
  Rows r;
  r.iterators = lattice.columns;
  r.box.resize(lattice.columns);
  r.empty = rows.empty;
  std::vector<size_t> used;  // most rows have few iterators
  auto add = [&](std::span<const int64_t> a, const Range& range) {
    if (range.lo == no_lower && range.hi == no_upper) return;
    checkpoint();
    used.clear();
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] != 0) used.push_back(i);
    }
    Vector b(lattice.columns);
    for (size_t j = 0; j < b.size(); ++j) {
      Wide sum = 0;
      for (size_t i : used) sum = wide_add(sum, Wide(a[i]) * lattice.basis[i][j]);
      b[j] = narrow(sum);
    }
    Wide constant = dot(a, lattice.offset);
    add_row(r, std::move(b), range.lo == no_lower ? Wide(no_lower) : wide_add(range.lo, -constant),
            range.hi == no_upper ? Wide(no_upper) : wide_add(range.hi, -constant));
  };
  Vector unit(rows.iterators, 0);
  for (size_t i = 0; i < rows.iterators; ++i) {
    unit[i] = 1;
    add(unit, rows.box[i]);
    unit[i] = 0;
  }
  for (const Row& row : rows.rows) add(row.a, row.range);
  for (const Congruence& c : rows.congruences) r.congruences.push_back(pulled_back(c, lattice));
  return r;
}

bool eliminate(Rows& rows, Sublattice& lattice) {
  while (propagate(rows)) {
    std::vector<Congruence> pending;
    std::swap(pending, rows.congruences);
    for (size_t i = 0; i < rows.iterators; ++i) {
      if (!rows.box[i].fixed()) continue;
      Vector unit(rows.iterators, 0);
      unit[i] = 1;
      pending.push_back({std::move(unit), checked_neg(rows.box[i].lo), 0});
    }
    for (const Row& row : rows.rows) {
      if (row.range.fixed()) pending.push_back({row.a, checked_neg(row.range.lo), 0});
    }
    if (pending.empty()) return true;
    Sublattice change = whole_lattice(rows.iterators);
    for (const Congruence& c : pending) {
      if (!restrict_lattice(change, c)) return false;
      shorten(change, rows);
    }
    rows = transform(rows, change);
    lattice = compose(lattice, change);
  }
  return false;
}

Sublattice compose(const Sublattice& outer, const Sublattice& inner) {
  Sublattice r{inner.columns, outer.offset, Matrix(outer.basis.size(), Vector(inner.columns))};
  for (size_t i = 0; i < outer.basis.size(); ++i) {
    r.offset[i] = narrow(wide_add(dot(outer.basis[i], inner.offset), outer.offset[i]));
    for (size_t j = 0; j < inner.columns; ++j) {
      Wide sum = 0;
      for (size_t k = 0; k < outer.columns; ++k) {
        sum = wide_add(sum, Wide(outer.basis[i][k]) * inner.basis[k][j]);
      }
      r.basis[i][j] = narrow(sum);
    }
  }
  return r;
}

Substitution to_substitution(const Sublattice& lattice) {
  Substitution s;
  s.iterators = lattice.columns;
  for (size_t i = 0; i < lattice.basis.size(); ++i) {
    Affine form = constant_affine(lattice.offset[i]);
    form.coefficients.assign(lattice.basis[i].begin(), lattice.basis[i].end());
    while (!form.coefficients.empty() && form.coefficients.back().is_zero()) {
      form.coefficients.pop_back();
    }
    s.old_in_new.push_back(std::move(form));
  }
  return s;
}

}  // namespace tile::lattice
