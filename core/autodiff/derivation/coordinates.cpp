#include "core/autodiff/derivation/coordinates.h"

#include <algorithm>
#include <optional>

#include "core/ir/affine.h"

namespace tile {
namespace {

// The coefficients of the indices; nullopt: they are not all numbers.
class Reader {
 public:
  explicit Reader(const std::vector<std::string>& indices) : indices_(indices) {}

  std::optional<Affine> read(const Expr& e) const {
    switch (e.kind()) {
      case ExprKind::variable:
        return variable(e.name());
      case ExprKind::add:
        return sum(e, 1);
      case ExprKind::sub:
        return sum(e, -1);
      case ExprKind::neg:
        return scaled(read(e.args()[0]), -1);
      case ExprKind::mul:
        return product(e);
      case ExprKind::exact_div:
        if (!e.args()[1].is_constant() || e.args()[1].is_constant(0)) break;
        return scaled(read(e.args()[0]), Rational(1, e.args()[1].value()));
      default:
        break;
    }
    if (uses_index(e)) return std::nullopt;
    return Affine{};
  }

 private:
  std::optional<Affine> variable(const std::string& name) const {
    for (size_t i = 0; i < indices_.size(); ++i) {
      if (indices_[i] == name) return iterator_affine(i);
    }
    return Affine{};
  }
  static std::optional<Affine> scaled(std::optional<Affine> form, const Rational& by) {
    if (form) *form = *form * by;
    return form;
  }
  std::optional<Affine> sum(const Expr& e, int64_t sign) const {
    std::optional<Affine> total = read(e.args()[0]);
    for (size_t i = 1; i < e.args().size() && total; ++i) {
      std::optional<Affine> term = scaled(read(e.args()[i]), sign);
      if (!term) return std::nullopt;
      *total = *total + *term;
    }
    return total;
  }
  // Numbers times one expression.
  std::optional<Affine> product(const Expr& e) const {
    Rational by = 1;
    std::optional<Affine> form = Affine{};
    for (const Expr& arg : e.args()) {
      if (arg.is_constant()) {
        by = by * Rational(arg.value());
      } else if (uses_index(e)) {
        if (!form->is_constant() || e.args().size() > 2) return std::nullopt;
        form = read(arg);
        if (!form) return std::nullopt;
      }
    }
    return scaled(form, by);
  }
  bool uses_index(const Expr& e) const {
    return std::any_of(indices_.begin(), indices_.end(),
                       [&](const std::string& name) { return uses_variable(e, name); });
  }

  const std::vector<std::string>& indices_;
};

// The forms whose indices' coefficients are combinations of those added.
class RowSpace {
 public:
  explicit RowSpace(const std::vector<std::string>& indices) : indices_(indices) {}

  // False, and nothing changes, if the form is in the space or its coefficients are no numbers.
  bool add(const Expr& form) {
    std::optional<std::vector<Rational>> row = remainder(form);
    if (!row) return false;
    for (size_t i = 0; i < row->size(); ++i) {
      if ((*row)[i].is_zero()) continue;
      rows_.emplace_back(i, std::move(*row));
      return true;
    }
    return false;
  }
  bool contains(const Expr& form) const {
    std::optional<std::vector<Rational>> row = remainder(form);
    return row &&
           std::all_of(row->begin(), row->end(), [](const Rational& c) { return c.is_zero(); });
  }

 private:
  std::optional<std::vector<Rational>> remainder(const Expr& e) const {
    std::optional<Affine> form = Reader(indices_).read(e);
    if (!form) return std::nullopt;
    std::vector<Rational> row(indices_.size());
    for (size_t i = 0; i < row.size(); ++i) row[i] = form->coefficient(i);
    for (const auto& [pivot, known] : rows_) {
      Rational factor = row[pivot] / known[pivot];
      for (size_t i = 0; i < row.size(); ++i) row[i] = row[i] - factor * known[i];
    }
    return row;
  }

  const std::vector<std::string>& indices_;
  std::vector<std::pair<size_t, std::vector<Rational>>> rows_;  // a pivot and its row
};

class Choice {
 public:
  Choice(const Derivation& derivation, const SymbolicContraction& contraction)
      : contraction_(contraction), space_(contraction.indices) {
    for (size_t d = 0; d < contraction.out_index.size(); ++d) {
      add(contraction.out_index[d], contraction.out_size[d]);
    }
    for (const SymbolicAccess& a : contraction.accesses) {
      for (size_t d = 0; d < a.index.size(); ++d) {
        bool inside = d >= a.boundary.size() || a.boundary[d] == Boundary::in_range;
        if (inside) add(a.index[d], derivation.extent(a.tensor, d));
      }
    }
    for (const SymbolicConstraint& k : contraction.constraints) {
      if (!is_fractional(k.form)) add(k.form, k.bound);
    }
  }

  std::vector<Coordinate> run() {
    for (const std::string& index : contraction_.indices) {
      auto named = [&](const Coordinate& c) { return c.plain && c.form.name() == index; };
      auto found = std::find_if(candidates_.begin(), candidates_.end(), named);
      if (found != candidates_.end()) try_one(*found);
    }
    for (const Coordinate& c : candidates_) try_one(c);
    return std::move(chosen_);
  }

 private:
  void add(const Expr& form, const Expr& size) {
    bool plain = form.kind() == ExprKind::variable &&
                 std::find(contraction_.indices.begin(), contraction_.indices.end(), form.name()) !=
                     contraction_.indices.end();
    candidates_.push_back({form, size, plain});
  }

  // Takes the coordinate if no chosen ones determine it.
  void try_one(const Coordinate& c) {
    if (space_.add(c.form)) chosen_.push_back(c);
  }

  const SymbolicContraction& contraction_;
  RowSpace space_;
  std::vector<Coordinate> candidates_, chosen_;
};

}  // namespace

std::vector<Coordinate> coordinates_of(const Derivation& derivation,
                                       const SymbolicContraction& contraction) {
  return Choice(derivation, contraction).run();
}

SymbolicContraction over_cells(const SymbolicContraction& contraction,
                               const std::vector<Coordinate>& cells, Span span) {
  SymbolicContraction c;
  c.indices = contraction.indices;
  c.accesses = contraction.accesses;
  c.constraints = contraction.constraints;
  c.aggregation = Aggregation::assign;
  c.typed = true;
  c.out_span = span;
  for (const Coordinate& cell : cells) {
    c.out_index.push_back(cell.form);
    c.out_size.push_back(cell.size);
  }
  return c;
}

SymbolicAccess cell_access(TensorId tensor, const std::vector<Coordinate>& cells, int component,
                           Span span) {
  SymbolicAccess a;
  a.tensor = tensor;
  a.span = span;
  for (const Coordinate& cell : cells) a.index.push_back(cell.form);
  if (component >= 0) a.index.emplace_back(component);
  return a;
}

bool determines(const std::vector<Expr>& forms, const Expr& form,
                const std::vector<std::string>& indices) {
  RowSpace space(indices);
  for (const Expr& e : forms) space.add(e);
  return space.contains(form);
}

}  // namespace tile
