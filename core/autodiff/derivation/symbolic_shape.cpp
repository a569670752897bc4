#include "core/autodiff/derivation/symbolic_shape.h"

#include <algorithm>

namespace tile {
namespace {

using Dims = std::vector<std::optional<Expr>>;

SymbolicShape ranked(const std::vector<Expr>& dims) {
  return {true, Dims(dims.begin(), dims.end()), TensorId()};
}

// Of two extents that broadcast with each other.
std::optional<Expr> joined(const std::optional<Expr>& a, const std::optional<Expr>& b) {
  if (a && b && *a == *b) return a;
  if (a && a->is_constant(1)) return b;
  if (b && b->is_constant(1)) return a;
  if (a && a->is_constant()) return a;
  if (b && b->is_constant()) return b;
  return std::nullopt;
}

class Inference {
 public:
  Inference(TensorId result, const SymbolicShapes& shapes) : result_(result), shapes_(shapes) {}

  SymbolicShape operator()(const SymbolicContraction& c) const {
    SymbolicShape shape = ranked(c.out_size);
    if (c.components != 0) shape.dims.emplace_back(Expr(c.components));
    return shape;
  }
  SymbolicShape operator()(const Repeat& r) const { return of(r.operands.at(0)); }
  SymbolicShape operator()(const Literal& l) const {
    return ranked({l.shape.begin(), l.shape.end()});
  }
  SymbolicShape operator()(const Elementwise& e) const {
    SymbolicShape all = ranked({});
    for (TensorId id : e.operands) all = broadcast(all, of(id));
    return all;
  }
  SymbolicShape operator()(const Call& c) const {
    switch (c.function) {
      case Function::index:
      case Function::sort:
      case Function::argsort:
      case Function::cumsum:
      case Function::permute_along:
        return of(c.tensors.at(0));
      case Function::sum_to:
      case Function::reshape_like:
      case Function::unslice:
        return of(c.tensors.at(1));
      case Function::reshape:
      case Function::prng_uniform:
        return ranked(c.sizes);
      case Function::transpose:
        return transposed(c);
      default:
        return unknown();
    }
  }

 private:
  const SymbolicShape& of(TensorId id) const { return shapes_[id]; }
  SymbolicShape unknown() const { return {false, {}, result_}; }
  static bool is_scalar(const SymbolicShape& s) { return s.ranked && s.dims.empty(); }

  // Where all extents are known: of an unknown one nothing could say that it is another's.
  SymbolicShape transposed(const Call& c) const {
    const SymbolicShape& from = of(c.tensors.at(0));
    if (!from.ranked || c.sizes.size() != from.dims.size()) return unknown();
    std::vector<Expr> dims;
    for (const Expr& axis : c.sizes) {
      bool known = axis.is_constant() && axis.value() >= 0 && axis.value() < std::ssize(from.dims);
      if (!known || !from.dims[static_cast<size_t>(axis.value())]) return unknown();
      dims.push_back(*from.dims[static_cast<size_t>(axis.value())]);
    }
    return ranked(dims);
  }
  SymbolicShape broadcast(const SymbolicShape& a, const SymbolicShape& b) const {
    if (is_scalar(a)) return b;
    if (is_scalar(b) || provably_equal(a, b)) return a;
    if (!a.ranked || !b.ranked) return unknown();
    size_t rank = std::max(a.dims.size(), b.dims.size());
    Dims dims(rank);
    for (size_t d = 0; d < rank; ++d) {
      dims[rank - 1 - d] = joined(from_end(a, d), from_end(b, d));
    }
    return {true, std::move(dims), TensorId()};
  }
  static std::optional<Expr> from_end(const SymbolicShape& s, size_t d) {
    return d < s.dims.size() ? s.dims[s.dims.size() - 1 - d] : Expr(1);
  }

  TensorId result_;
  const SymbolicShapes& shapes_;
};

}  // namespace

bool provably_equal(const SymbolicShape& a, const SymbolicShape& b) {
  if (a.ranked != b.ranked) return false;
  if (!a.ranked) return a.like == b.like;
  auto same = [](const std::optional<Expr>& x, const std::optional<Expr>& y) {
    return x && y && *x == *y;
  };
  return std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(), same);
}

SymbolicShape shape_of_input(const Tensor& input, TensorId id) {
  if (input.ranked) return ranked(input.dims);
  return {false, {}, id};
}

SymbolicShape shape_of_result(const Statement& statement, const SymbolicShapes& shapes) {
  return std::visit(Inference(statement.result, shapes), statement.what);
}

}  // namespace tile
