// Rule 4.7: two valid points of an `=` never share a cell. Exact: the points that do are the
// integer points of {p, q valid, p != q, same cell}, whose emptiness the lattice decides.
#include <algorithm>
#include <optional>

#include "core/lattice/lattice.h"
#include "core/passes/bind/bind.h"
#include "core/support/checked.h"
#include "core/support/control.h"

namespace tile {
namespace {

using lattice::Condition;
using lattice::System;

Affine shifted(const Affine& form, size_t by) {
  Affine r;
  r.coefficients.resize(by);
  for (const Rational& c : form.coefficients) r.coefficients.push_back(c);
  r.constant = form.constant;
  return r;
}

// What makes a point of the piece valid.
std::vector<Condition> domain(const BoundProgram& program, const Piece& piece) {
  std::vector<Condition> conditions;
  auto add = [&](Condition condition) {
    bool known = std::any_of(conditions.begin(), conditions.end(), [&](const Condition& c) {
      return c.form == condition.form && c.lo == condition.lo && c.hi == condition.hi &&
             c.integral == condition.integral;
    });
    if (!known) conditions.push_back(std::move(condition));
  };
  auto add_access = [&](const Access& access) {
    const Shape& shape = program.tensors[access.tensor].shape;
    for (size_t d = 0; d < access.index.size(); ++d) {
      const Index& index = access.index[d];
      if (index.value >= 0 || index.boundary != Boundary::in_range) continue;
      add({index.affine, 0, shape[d], true});
    }
  };
  for (const Access& access : piece.stores) add_access(access);
  for (const Access& access : piece.loads) add_access(access);
  for (const Constraint& c : piece.constraints) add({c.form, c.lo, c.hi, c.integral});
  for (size_t i = 0; i < piece.box.size(); ++i) add({iterator_affine(i), 0, piece.box[i], true});
  return conditions;
}

// Whether the store alone tells points apart: its forms have full column rank.
bool store_determines_point(const Piece& piece, const Access& store) {
  size_t n = piece.iterators.size(), rank = 0;
  std::vector<std::vector<Rational>> rows;
  for (const Index& index : store.index) {
    std::vector<Rational> row(n);
    for (size_t i = 0; i < n; ++i) row[i] = index.affine.coefficient(i);
    rows.push_back(std::move(row));
  }
  for (size_t column = 0; column < n; ++column) {
    size_t pivot = rank;
    while (pivot < rows.size() && rows[pivot][column].is_zero()) ++pivot;
    if (pivot == rows.size()) return false;
    std::swap(rows[rank], rows[pivot]);
    for (size_t r = rank + 1; r < rows.size(); ++r) {
      Rational factor = rows[r][column] / rows[rank][column];
      for (size_t i = column; i < n; ++i) rows[r][i] = rows[r][i] - factor * rows[rank][i];
    }
    ++rank;
  }
  return true;
}

// Bounds of a form that some condition states up to a constant.
std::optional<std::pair<Rational, Rational>> stated_bounds(const std::vector<Condition>& conditions,
                                                           const Affine& form) {
  std::optional<std::pair<Rational, Rational>> best;
  for (const Condition& c : conditions) {
    Affine difference = form - c.form;
    if (!difference.is_constant()) continue;
    Rational lo = difference.constant + Rational(c.lo), hi = difference.constant + Rational(c.hi);
    if (!best || hi - lo < best->second - best->first) best = {lo, hi};
  }
  return best;
}

class Checker {
 public:
  Checker(const BoundProgram& program, const Contraction& contraction)
      : program_(program), contraction_(contraction) {
    for (const Piece& piece : contraction.pieces) domains_.push_back(domain(program, piece));
  }

  void run() const {
    for (size_t o = 0; o < contraction_.outputs.size(); ++o) {
      for (size_t p = 0; p < contraction_.pieces.size(); ++p) {
        check_piece(p, o);
        for (size_t q = p + 1; q < contraction_.pieces.size(); ++q) check_pair(p, q, o, o);
      }
    }
  }

  // Parts of one tensor share no cell.
  void run_components() const {
    for (size_t o = 0; o < contraction_.outputs.size(); ++o) {
      for (size_t other = 0; other < o; ++other) {
        if (contraction_.outputs[other] == contraction_.outputs[o]) check_components(other, o);
      }
    }
  }

 private:
  void check_components(size_t first, size_t second) const {
    for (size_t p = 0; p < contraction_.pieces.size(); ++p) {
      for (size_t q = 0; q < contraction_.pieces.size(); ++q) check_pair(p, q, first, second);
    }
  }

  // Both points valid, writing one cell.
  System same_cell(size_t p, size_t q, size_t output, size_t other) const {
    const Piece &first = contraction_.pieces[p], &second = contraction_.pieces[q];
    size_t n = first.iterators.size();
    System system;
    system.iterators = n + second.iterators.size();
    system.conditions = domains_[p];
    for (Condition c : domains_[q]) {
      c.form = shifted(c.form, n);
      system.conditions.push_back(std::move(c));
    }
    const Access &a = first.stores[output], &b = second.stores[other];
    for (size_t d = 0; d < a.index.size(); ++d) {
      Affine difference = a.index[d].affine - shifted(b.index[d].affine, n);
      system.conditions.push_back({std::move(difference), 0, 1, true});
    }
    return system;
  }

  void check_piece(size_t p, size_t output) const {
    const Piece& piece = contraction_.pieces[p];
    size_t n = piece.iterators.size();
    if (store_determines_point(piece, piece.stores[output])) return;
    // The points first differ at iterator k, where the second's is larger.
    System system = same_cell(p, p, output, output);
    for (size_t k = 0; k < n; ++k) {
      Affine difference = iterator_affine(n + k) - iterator_affine(k);
      system.conditions.push_back({difference, 1, int64_t{1} << 62, true});
      require_empty(system, output);
      system.conditions.back() = {std::move(difference), 0, 1, true};
    }
  }

  void check_pair(size_t p, size_t q, size_t output, size_t other) const {
    const Access& a = contraction_.pieces[p].stores[output];
    const Access& b = contraction_.pieces[q].stores[other];
    for (size_t d = 0; d < a.index.size(); ++d) {
      const Affine &x = a.index[d].affine, &y = b.index[d].affine;
      if (x.is_constant() && y.is_constant() && x.constant != y.constant) return;
      auto left = stated_bounds(domains_[p], a.index[d].affine);
      auto right = stated_bounds(domains_[q], b.index[d].affine);
      if (left && right && (left->second <= right->first || right->second <= left->first)) return;
    }
    require_empty(same_cell(p, q, output, other), output);
  }

  void require_empty(const System& system, size_t output) const {
    checkpoint();
    lattice::Emptiness answer = lattice::emptiness(system);
    if (answer == lattice::Emptiness::empty) return;
    const std::string& name = program_.tensors[contraction_.outputs[output]].name;
    if (answer == lattice::Emptiness::inhabited) {
      fail(Stage::compile, "overlap", contraction_.span,
           "two valid points of this `=` write the same cell of " + name,
           "aggregate with `+`, or constrain the indices");
    }
    // Rule 4.13.
    fail(Stage::compile, "limit", contraction_.span,
         "whether two points of this `=` write the same cell of " + name +
             " takes too long to decide",
         "aggregate with `+`, which allows it");
  }

  const BoundProgram& program_;
  const Contraction& contraction_;
  std::vector<std::vector<Condition>> domains_;
};

}  // namespace

void check_assignments(const BoundProgram& program) {
  for (const BoundStatement& statement : program.statements) {
    if (const auto* repeat = std::get_if<BoundRepeat>(&statement)) check_assignments(*repeat->step);
    const auto* contraction = std::get_if<Contraction>(&statement);
    if (contraction == nullptr) continue;
    checkpoint_at(contraction->span);
    Checker checker(program, *contraction);
    try {
      if (contraction->aggregation == Aggregation::assign) checker.run();
      checker.run_components();
    } catch (const Overflow&) {
      fail(Stage::compile, "limit", contraction->span,
           "an index does not fit in 64 bits while the points of this `=` are compared");
    }
  }
}

}  // namespace tile
