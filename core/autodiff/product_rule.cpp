#include "core/autodiff/product_rule.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/autodiff/derivation/coordinates.h"

namespace tile {
namespace {

class ProductRule {
 public:
  ProductRule(Derivation& derivation, const Statement& statement,
              const SymbolicContraction& forward)
      : derivation_(derivation),
        statement_(statement),
        forward_(forward),
        name_(derivation.tensor(statement.result).name) {}

  std::vector<SymbolicAccess> run() {
    coordinates_ = coordinates_of(derivation_, forward_);
    if (coordinates_.size() < forward_.indices.size()) {
      fail(Stage::bind, "derivative", statement_.span,
           "the derivative of this product needs every index of " + name_ + " to be bounded",
           "add a constraint such as \"i < N\"");
    }
    choose_suffix();
    factors_ = all_factors();
    std::vector<SymbolicAccess> result;
    for (size_t level = 0; level < coordinates_.size(); ++level) {
      if (is_fixed(coordinates_[level].form, level)) continue;
      if (is_line(level)) {
        add_along_line(level, result);
        continue;
      }
      for (bool before : {true, false}) result.push_back(access(others_at(level, before), {}));
    }
    return result;
  }

 private:
  using Renaming = std::map<std::string, Expr>;

  // Whether points of one cell that agree in the coordinates before `level` agree in `form`.
  bool is_fixed(const Expr& form, size_t level) const {
    std::vector<Expr> agreed = forward_.out_index;
    for (size_t k = 0; k < level; ++k) agreed.push_back(coordinates_[k].form);
    return determines(agreed, form, forward_.indices);
  }

  void choose_suffix() {
    std::set<std::string> names(forward_.indices.begin(), forward_.indices.end());
    auto taken = [&](const std::string& index) { return names.contains(suffixed(index, suffix_)); };
    while (std::any_of(names.begin(), names.end(), taken)) suffix_ += "_o";
  }

  SymbolicAccess access(TensorId tensor, const Renaming& renaming) const {
    SymbolicAccess a;
    a.tensor = tensor;
    a.span = statement_.span;
    for (const Coordinate& c : coordinates_) a.index.push_back(substitute(c.form, renaming));
    return a;
  }
  void store_at_points(SymbolicContraction& c) const {
    c.out_index.clear();
    c.out_size.clear();
    for (const Coordinate& k : coordinates_) {
      c.out_index.push_back(k.form);
      c.out_size.push_back(k.size);
    }
    c.out_span = statement_.span;
  }

  // The factor of each point over the box of the coordinates; 1 where there is no point.
  TensorId all_factors() {
    SymbolicContraction c = forward_;
    c.aggregation = Aggregation::assign;
    c.default_tensor.reset();
    c.no_defract = false;
    bound_by_output(c);
    store_at_points(c);
    bool complete = covers_the_box(c);
    std::string first = complete ? "_factors" : "_bare";
    TensorId bare = derivation_.add(suffixed(name_, first), statement_.span, c);
    // Ones of the factors' shape and type.
    Body body;
    NodeId one = body.integer(1), like = body.load(0);
    body.results = {body.operation(Op::cast_like, {one, like})};
    ones_ =
        derivation_.elementwise(suffixed(name_, "_ones"), statement_.span, {bare}, std::move(body));
    if (complete) return bare;
    c.default_tensor = ones_;
    return derivation_.add(suffixed(name_, "_factors"), statement_.span, std::move(c));
  }
  // Every place of the box is a point: all forms are plain indices with the coordinates' bounds.
  bool covers_the_box(const SymbolicContraction& c) const {
    auto is_coordinate = [&](const Expr& form, const Expr& size) {
      return std::any_of(coordinates_.begin(), coordinates_.end(), [&](const Coordinate& k) {
        return k.plain && k.form == form && k.size == size;
      });
    };
    if (!c.constraints.empty()) return false;
    for (const SymbolicAccess& a : c.accesses) {
      for (size_t d = 0; d < a.index.size(); ++d) {
        if (!is_coordinate(a.index[d], derivation_.extent(a.tensor, d))) return false;
      }
    }
    return std::all_of(coordinates_.begin(), coordinates_.end(),
                       [](const Coordinate& k) { return k.plain; });
  }
  // The forward output bounds the points too: a read of it takes part in where there are points,
  // also by being an element, which a constraint on a fractional form would not ask for.
  void bound_by_output(SymbolicContraction& c) const {
    bool fractional = false;
    for (size_t d = 0; d < forward_.out_index.size(); ++d) {
      const Expr &form = forward_.out_index[d], &size = forward_.out_size[d];
      fractional = fractional || is_fractional(form);
      bool known = std::any_of(coordinates_.begin(), coordinates_.end(), [&](const Coordinate& k) {
        return k.form == form && k.size == size;
      });
      if (!known) c.constraints.push_back({form, size, statement_.span});
    }
    if (!fractional) return;
    SymbolicAccess cell;
    cell.tensor = statement_.result;
    cell.index = forward_.out_index;
    cell.span = statement_.span;
    c.accesses.push_back(std::move(cell));
    NodeId always = c.body.integer(1), value = c.body.results[0];
    NodeId output = c.body.load(c.accesses.size() - 1);
    c.body.results = {c.body.operation(Op::select, {always, value, output})};
  }

  // At each point the product of the factors of its cell that agree in the coordinates before
  // `level` and come before (after) it in that one; the coordinates behind run freely.
  TensorId others_at(size_t level, bool before) {
    Renaming renaming = renamed_from(level);
    SymbolicContraction c;
    c.indices = forward_.indices;
    for (const auto& [index, other] : renaming) c.indices.push_back(other.name());
    store_at_points(c);
    c.aggregation = Aggregation::product;
    c.accesses = {access(factors_, renaming)};
    c.body.results = {c.body.load(0)};
    c.default_tensor = ones_;
    const Expr& here = coordinates_[level].form;
    Expr there = substitute(here, renaming);
    Expr distance = before ? Expr::make(ExprKind::sub, {here, there})
                           : Expr::make(ExprKind::sub, {there, here});
    c.constraints.push_back({Expr::make(ExprKind::sub, {distance, Expr(1)}),
                             coordinates_[level].size, statement_.span});
    for (size_t k = 0; k < level; ++k) agree(c, coordinates_[k].form, renaming);
    for (const Expr& form : forward_.out_index) agree(c, form, renaming);
    return derivation_.add(suffixed(name_, before ? "_before" : "_after"), statement_.span,
                           std::move(c));
  }
  // Whether the points of a cell that agree in the earlier coordinates are a line of places along
  // this one times a box of the later ones.
  bool is_line(size_t level) const {
    Renaming renaming = renamed_from(level);
    return std::all_of(coordinates_.begin(), coordinates_.end(),
                       [](const Coordinate& c) { return c.plain; }) &&
           std::all_of(forward_.out_index.begin(), forward_.out_index.end(),
                       [&](const Expr& e) { return substitute(e, renaming) == e; });
  }
  // Then a prefix and a suffix product along the line, which take linear work: no cell is empty
  // when each starts with a one, the factors moved by one place.
  void add_along_line(size_t level, std::vector<SymbolicAccess>& result) {
    kept_.clear();
    for (size_t k = 0; k < coordinates_.size(); ++k) {
      if (k <= level || is_fixed(coordinates_[k].form, level)) kept_.push_back(k);
    }
    TensorId groups = factors_, ones = ones_;
    if (kept_.size() < coordinates_.size()) {
      groups = add_product(access(factors_, {}), forward_.indices, "_groups", {});
      Body body;
      NodeId one = body.integer(1), like = body.load(0);
      body.results = {body.operation(Op::cast_like, {one, like})};
      ones = derivation_.elementwise(suffixed(name_, "_ones"), statement_.span, {groups},
                                     std::move(body));
    }
    for (bool before : {true, false}) {
      TensorId moved = add_moved(groups, ones, level, before);
      Expr here = coordinates_[level].form;
      Expr there = Expr::variable(suffixed(here.name(), suffix_));
      std::vector<std::string> indices = kept_indices();
      indices.push_back(there.name());
      Expr distance = before ? Expr::make(ExprKind::sub, {here, there})
                             : Expr::make(ExprKind::sub, {there, here});
      TensorId others =
          add_product(kept_access(moved, level, there), indices, before ? "_before" : "_after",
                      {{distance, coordinates_[level].size, statement_.span}});
      result.push_back(kept_access(others, level, here));
    }
  }
  TensorId add_product(SymbolicAccess factors, std::vector<std::string> indices,
                       const std::string& suffix, std::vector<SymbolicConstraint> constraints) {
    SymbolicContraction c;
    c.indices = std::move(indices);
    store_kept(c);
    c.aggregation = Aggregation::product;
    c.accesses = {std::move(factors)};
    c.body.results = {c.body.load(0)};
    c.constraints = std::move(constraints);
    return derivation_.add(suffixed(name_, suffix), statement_.span, std::move(c));
  }
  // The groups one place further (back) along the line, a one in the place left free.
  TensorId add_moved(TensorId groups, TensorId ones, size_t level, bool before) {
    SymbolicContraction c;
    c.indices = kept_indices();
    store_kept(c);
    const Expr& at = coordinates_[level].form;
    Expr to = before ? at + Expr(1) : at - Expr(1);
    for (Expr& e : c.out_index) e = e == at ? to : e;
    c.aggregation = Aggregation::assign;
    c.accesses = {kept_access(groups, level, at)};
    c.body.results = {c.body.load(0)};
    c.default_tensor = ones;
    return derivation_.add(suffixed(name_, before ? "_earlier" : "_later"), statement_.span,
                           std::move(c));
  }
  std::vector<std::string> kept_indices() const {
    std::vector<std::string> names;
    for (size_t k : kept_) names.push_back(coordinates_[k].form.name());
    return names;
  }
  SymbolicAccess kept_access(TensorId tensor, size_t level, const Expr& at) const {
    SymbolicAccess a;
    a.tensor = tensor;
    a.span = statement_.span;
    for (size_t k : kept_) a.index.push_back(k == level ? at : coordinates_[k].form);
    return a;
  }
  void store_kept(SymbolicContraction& c) const {
    for (size_t k : kept_) {
      c.out_index.push_back(coordinates_[k].form);
      c.out_size.push_back(coordinates_[k].size);
    }
    c.out_span = statement_.span;
  }

  // The indices that differ between two points of one cell that agree in the coordinates before
  // `level`.
  Renaming renamed_from(size_t level) const {
    Renaming renaming;
    for (const std::string& index : forward_.indices) {
      if (is_fixed(Expr::variable(index), level)) continue;
      renaming[index] = Expr::variable(suffixed(index, suffix_));
    }
    return renaming;
  }
  // 0 <= f(here) - f(there) < 1; both are integers.
  void agree(SymbolicContraction& c, const Expr& form, const Renaming& renaming) const {
    Expr there = substitute(form, renaming);
    if (there == form) return;
    SymbolicConstraint same{Expr::make(ExprKind::sub, {form, there}), Expr(1), statement_.span};
    auto equal = [&](const SymbolicConstraint& k) { return k.form == same.form; };
    if (std::none_of(c.constraints.begin(), c.constraints.end(), equal)) {
      c.constraints.push_back(std::move(same));
    }
  }

  Derivation& derivation_;
  const Statement& statement_;
  const SymbolicContraction& forward_;
  std::string name_;
  std::string suffix_ = "_o";
  std::vector<Coordinate> coordinates_;
  std::vector<size_t> kept_;  // the coordinates that the products along one line keep
  TensorId factors_;
  TensorId ones_;
};

}  // namespace

std::vector<SymbolicAccess> product_of_others(Derivation& derivation, const Statement& statement,
                                              const SymbolicContraction& forward) {
  return ProductRule(derivation, statement, forward).run();
}

}  // namespace tile
