#include "core/passes/gradient/product_rule.h"

#include <algorithm>
#include <map>

namespace tile {
namespace {

class ProductRule {
 public:
  ProductRule(Derivation& derivation, const Statement& statement,
              const SymbolicContraction& forward)
      : derivation_(derivation), statement_(statement), forward_(forward) {}

  std::vector<SymbolicAccess> run() {
    for (const std::string& index : forward_.indices) sizes_.push_back(size_of(index));
    name_ = derivation_.tensor(statement_.result).name;
    factors_ = all_factors();
    std::vector<SymbolicAccess> result;
    for (size_t level = 0; level < forward_.indices.size(); ++level) {
      if (is_plain_output(forward_.indices[level])) continue;
      for (bool before : {true, false}) result.push_back(access(others_at(level, before)));
    }
    return result;
  }

 private:
  // An index is an output dimension by itself: points of one cell agree in it.
  bool is_plain_output(const std::string& index) const {
    return std::any_of(forward_.out_index.begin(), forward_.out_index.end(),
                       [&](const Expr& e) { return is_index(e, index); });
  }
  static bool is_index(const Expr& e, const std::string& index) {
    return e.kind() == ExprKind::variable && e.name() == index;
  }

  // A bound that the text gives to the index alone: an output size, a tensor's extent, a
  // constraint.
  Expr size_of(const std::string& index) const {
    for (size_t d = 0; d < forward_.out_index.size(); ++d) {
      if (is_index(forward_.out_index[d], index)) return forward_.out_size[d];
    }
    for (const SymbolicAccess& a : forward_.accesses) {
      for (size_t d = 0; d < a.index.size(); ++d) {
        if (is_index(a.index[d], index)) return derivation_.extent(a.tensor, d);
      }
    }
    for (const SymbolicConstraint& c : forward_.constraints) {
      if (is_index(c.form, index)) return c.bound;
    }
    fail(Stage::bind, "derivative", statement_.span,
         "the derivative of this product needs a bound of index " + index + " by itself",
         "add a constraint such as \"" + index + " < N\"");
  }

  SymbolicAccess access(TensorId tensor, const std::string& suffix = "",
                        size_t from = SIZE_MAX) const {
    SymbolicAccess a;
    a.tensor = tensor;
    a.span = statement_.span;
    for (size_t i = 0; i < forward_.indices.size(); ++i) {
      bool renamed = i >= from && !is_plain_output(forward_.indices[i]);
      a.index.push_back(Expr::variable(forward_.indices[i] + (renamed ? suffix : "")));
    }
    return a;
  }

  // The factor of each point over the box of the indices; 1 where there is no point.
  TensorId all_factors() {
    SymbolicContraction c = forward_;
    c.aggregation = Aggregation::assign;
    c.default_tensor.reset();
    c.out_index.clear();
    for (const std::string& index : forward_.indices) c.out_index.push_back(Expr::variable(index));
    c.out_size = sizes_;
    c.no_defract = false;
    // The forward output bounds the points too.
    for (size_t d = 0; d < forward_.out_index.size(); ++d) {
      if (!is_plain_output_form(forward_.out_index[d])) {
        c.constraints.push_back({forward_.out_index[d], forward_.out_size[d], statement_.span});
      }
    }
    TensorId bare = derivation_.add(name_ + "_bare", statement_.span, c);
    // Ones of the factors' shape and type.
    Body body;
    NodeId one = body.integer(1), like = body.load(0);
    body.results = {body.operation(Op::select, {one, one, like})};
    ones_ = derivation_.elementwise(name_ + "_ones", statement_.span, {bare}, std::move(body));
    c.default_tensor = ones_;
    return derivation_.add(name_ + "_factors", statement_.span, std::move(c));
  }
  bool is_plain_output_form(const Expr& e) const {
    return e.kind() == ExprKind::variable &&
           std::find(forward_.indices.begin(), forward_.indices.end(), e.name()) !=
               forward_.indices.end();
  }

  // At each point the product of the factors of its cell that agree in the indices before `level`
  // and come before (after) it in index `level`; the indices behind run freely.
  TensorId others_at(size_t level, bool before) {
    SymbolicContraction c;
    const std::string other = "_o";
    c.indices = forward_.indices;
    for (size_t i = level; i < forward_.indices.size(); ++i) {
      if (!is_plain_output(forward_.indices[i])) c.indices.push_back(forward_.indices[i] + other);
    }
    for (const std::string& index : forward_.indices) c.out_index.push_back(Expr::variable(index));
    c.out_size = sizes_;
    c.aggregation = Aggregation::product;
    c.accesses = {access(factors_, other, level)};
    c.body.results = {c.body.load(0)};
    c.default_tensor = ones_;
    c.out_span = statement_.span;
    Expr here = Expr::variable(forward_.indices[level]);
    Expr there = Expr::variable(forward_.indices[level] + other);
    Expr distance = before ? Expr::make(ExprKind::sub, {here, there})
                           : Expr::make(ExprKind::sub, {there, here});
    c.constraints.push_back(
        {Expr::make(ExprKind::sub, {distance, Expr(1)}), sizes_[level], statement_.span});
    add_same_cell(c, level, other);
    return derivation_.add(name_ + (before ? "_before" : "_after"), statement_.span, std::move(c));
  }
  // Output forms that are no plain index must agree: 0 <= f(here) - f(there) < 1.
  void add_same_cell(SymbolicContraction& c, size_t level, const std::string& other) const {
    std::map<std::string, Expr> renamed;
    for (size_t i = level; i < forward_.indices.size(); ++i) {
      if (is_plain_output(forward_.indices[i])) continue;
      renamed[forward_.indices[i]] = Expr::variable(forward_.indices[i] + other);
    }
    for (const Expr& form : forward_.out_index) {
      std::vector<std::string> used;
      collect_variables(form, used);
      bool differs = std::any_of(used.begin(), used.end(),
                                 [&](const std::string& name) { return renamed.contains(name); });
      if (!differs) continue;
      Expr there = substitute(form, renamed);
      c.constraints.push_back({Expr::make(ExprKind::sub, {form, there}), Expr(1), statement_.span});
    }
  }

  Derivation& derivation_;
  const Statement& statement_;
  const SymbolicContraction& forward_;
  std::vector<Expr> sizes_;
  std::string name_;
  TensorId factors_ = -1;
  TensorId ones_ = -1;
};

}  // namespace

std::vector<SymbolicAccess> product_of_others(Derivation& derivation, const Statement& statement,
                                              const SymbolicContraction& forward) {
  return ProductRule(derivation, statement, forward).run();
}

}  // namespace tile
