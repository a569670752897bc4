#include <utility>

#include "core/lattice/rows.h"
#include "core/support/control.h"

namespace tile::lattice {
namespace {

// Column operations applied to the form and the transform alike.
class Columns {
 public:
  explicit Columns(Hermite& hermite) : h_(hermite) {}

  void exchange(size_t a, size_t b) {
    for (Matrix* m : {&h_.form, &h_.transform}) {
      for (Vector& row : *m) std::swap(row[a], row[b]);
    }
  }
  void negate(size_t a) {
    for (Matrix* m : {&h_.form, &h_.transform}) {
      for (Vector& row : *m) row[a] = checked_neg(row[a]);
    }
  }
  void subtract(size_t from, size_t other, int64_t factor) {
    if (factor == 0) return;
    for (Matrix* m : {&h_.form, &h_.transform}) {
      for (Vector& row : *m) row[from] = checked_sub(row[from], checked_mul(factor, row[other]));
    }
  }

 private:
  Hermite& h_;
};

// Euclid's algorithm on the entries of `row` from column `start` on, which leaves their gcd, made
// positive, in `start`; false when they are all zero.
bool gather(Hermite& h, size_t row, size_t start, size_t columns) {
  Columns ops(h);
  while (true) {
    checkpoint();
    const Vector& r = h.form[row];
    size_t least = columns, others = 0;
    for (size_t c = start; c < columns; ++c) {
      if (r[c] == 0) continue;
      ++others;
      auto size = [&](size_t i) { return r[i] < 0 ? -Wide(r[i]) : Wide(r[i]); };
      if (least == columns || size(c) < size(least)) least = c;
    }
    if (others == 0) return false;
    if (others == 1) {
      if (least != start) ops.exchange(least, start);
      if (h.form[row][start] < 0) ops.negate(start);
      return true;
    }
    for (size_t c = start; c < columns; ++c) {
      if (c != least) ops.subtract(c, least, trunc_div(h.form[row][c], h.form[row][least]));
    }
  }
}

}  // namespace

Hermite hermite_normal_form(const Matrix& matrix, size_t columns) {
  Hermite h{matrix, whole_lattice(columns).basis, 0};
  Columns ops(h);
  for (size_t row = 0; row < matrix.size() && h.rank < columns; ++row) {
    if (!gather(h, row, h.rank, columns)) continue;
    for (size_t c = 0; c < h.rank; ++c) {
      ops.subtract(c, h.rank, floor_div(h.form[row][c], h.form[row][h.rank]));
    }
    ++h.rank;
  }
  return h;
}

}  // namespace tile::lattice
