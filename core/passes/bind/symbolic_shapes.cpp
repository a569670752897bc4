#include "core/passes/bind/symbolic_shapes.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>

#include "core/support/checked.h"

namespace tile {
namespace {

using Known = std::optional<SymbolicShape>;

class Shapes {
 public:
  explicit Shapes(const Program& program) : program_(program), known_(program.tensors.size()) {
    for (const SizeDefinition& size : program.sizes) definitions_.emplace(size.name, &size.value);
    for (TensorId id : sizing_parameters(program)) parameters_.push_back(tensor(id).name);
  }

  IdVector<TensorId, Known> run() {
    for (TensorId id : program_.inputs) {
      if (tensor(id).ranked) at(id) = tensor(id).dims;
    }
    for (const Statement& statement : program_.statements) {
      at(statement.result) =
          std::visit([&](const auto& what) { return shape_of(what); }, statement.what);
    }
    return std::move(known_);
  }

 private:
  const Tensor& tensor(TensorId id) const { return program_.tensors[id]; }
  Known& at(TensorId id) { return known_[id]; }

  // "NAME.axis" as the tensor and the axis that it names.
  std::optional<std::pair<TensorId, size_t>> axis_named(std::string_view name) const {
    size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) return std::nullopt;
    std::string_view digits = name.substr(dot + 1);
    size_t axis = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), axis);
    std::optional<TensorId> id = program_.find(name.substr(0, dot));
    if (error != std::errc() || end != digits.data() + digits.size() || !id) return std::nullopt;
    return std::pair{*id, axis};
  }

  // A name in terms of what the inputs have; nullopt where that is not known.
  std::optional<Expr> resolved_name(const std::string& name) {
    if (auto own = definitions_.find(name); own != definitions_.end()) {
      return resolved(*own->second);
    }
    if (std::find(parameters_.begin(), parameters_.end(), name) != parameters_.end()) {
      return std::nullopt;
    }
    auto named = axis_named(name);
    if (!named) return Expr::variable(name);
    auto [id, axis] = *named;
    const Known& shape = at(id);
    if (shape && axis < shape->size()) return (*shape)[axis];
    bool input =
        std::find(program_.inputs.begin(), program_.inputs.end(), id) != program_.inputs.end();
    if (input && !tensor(id).ranked) return Expr::variable(name);
    return std::nullopt;
  }

  std::optional<Expr> resolved(const Expr& e) {
    std::vector<std::string> names;
    collect_variables(e, names);
    std::map<std::string, Expr> replacement;
    for (const std::string& name : names) {
      std::optional<Expr> value = resolved_name(name);
      if (!value) return std::nullopt;
      replacement.emplace(name, *value);
    }
    return substitute(e, replacement);
  }

  Known resolved(const std::vector<Expr>& sizes) {
    SymbolicShape shape;
    for (const Expr& size : sizes) {
      std::optional<Expr> value = resolved(size);
      if (!value) return std::nullopt;
      shape.push_back(*value);
    }
    return shape;
  }

  Known shape_of(const SymbolicContraction& c) {
    Known shape = resolved(c.out_size);
    if (shape && c.components > 0) shape->push_back(Expr(c.components));
    return shape;
  }

  Known shape_of(const Repeat& repeat) { return at(repeat.operands[0]); }

  Known shape_of(const Literal& literal) {
    return SymbolicShape(literal.shape.begin(), literal.shape.end());
  }

  // NumPy's broadcasting, where the sizes that meet are the same or written as 1.
  Known shape_of(const Elementwise& what) {
    SymbolicShape result;
    for (TensorId id : what.operands) {
      const Known& shape = at(id);
      if (!shape) return std::nullopt;
      if (shape->size() > result.size()) {
        result.insert(result.begin(), shape->size() - result.size(), Expr(1));
      }
      size_t first = result.size() - shape->size();
      for (size_t d = 0; d < shape->size(); ++d) {
        Expr& size = result[first + d];
        const Expr& other = (*shape)[d];
        if (size == other || other.is_constant(1)) continue;
        if (!size.is_constant(1)) return std::nullopt;
        size = other;
      }
    }
    return result;
  }

  Known shape_of(const Call& call) {
    const Known& first = call.tensors.empty() ? none_ : at(call.tensors[0]);
    const Known& second = call.tensors.size() < 2 ? none_ : at(call.tensors[1]);
    switch (call.function) {
      case Function::index:
      case Function::sort:
      case Function::argsort:
      case Function::cumsum:
      case Function::permute_along:
        return first;
      case Function::sum_to:
      case Function::reshape_like:
      case Function::unslice:
        return second;
      case Function::reshape:
      case Function::prng_uniform:
        return resolved(call.sizes);
      case Function::shape:
        if (!first) return std::nullopt;
        return SymbolicShape{Expr(static_cast<int64_t>(first->size()))};
      case Function::gather:
        return first && second ? joined(*second, *first, 1) : std::nullopt;
      case Function::scatter:
        return first && second ? scattered(call, *first, second->size()) : std::nullopt;
      case Function::transpose:
        return first ? transposed(call, *first) : std::nullopt;
      case Function::argmax:
      case Function::argmin:
        return first ? without_axis(call, *first) : std::nullopt;
      case Function::concat:
        return first ? concatenated(call, *first) : std::nullopt;
      case Function::slice:
        return std::nullopt;
    }
    return std::nullopt;
  }

  // `a`, then `b` without its first `skipped` sizes.
  static Known joined(SymbolicShape a, const SymbolicShape& b, size_t skipped) {
    if (b.size() < skipped) return std::nullopt;
    a.insert(a.end(), b.begin() + static_cast<std::ptrdiff_t>(skipped), b.end());
    return a;
  }

  Known scattered(const Call& call, const SymbolicShape& updates, size_t index_rank) {
    std::optional<Expr> rows = call.sizes.empty() ? std::nullopt : resolved(call.sizes[0]);
    return rows ? joined({*rows}, updates, index_rank) : std::nullopt;
  }

  // An axis given as a number; negative ones count from the end.
  std::optional<size_t> axis_in(const Call& call, size_t argument, size_t rank) const {
    if (argument >= call.sizes.size() || !call.sizes[argument].is_constant()) return std::nullopt;
    int64_t axis = call.sizes[argument].value(), count = static_cast<int64_t>(rank);
    if (axis < 0) axis += count;
    if (axis < 0 || axis >= count) return std::nullopt;
    return static_cast<size_t>(axis);
  }

  Known transposed(const Call& call, const SymbolicShape& shape) const {
    SymbolicShape result;
    for (size_t d = 0; d < call.sizes.size(); ++d) {
      std::optional<size_t> axis = axis_in(call, d, shape.size());
      if (!axis) return std::nullopt;
      result.push_back(shape[*axis]);
    }
    return result;
  }

  Known without_axis(const Call& call, SymbolicShape shape) const {
    std::optional<size_t> axis = axis_in(call, 0, shape.size());
    if (!axis) return std::nullopt;
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*axis));
    return shape;
  }

  Known concatenated(const Call& call, SymbolicShape shape) {
    std::optional<size_t> axis = axis_in(call, 0, shape.size());
    if (!axis) return std::nullopt;
    for (size_t t = 1; t < call.tensors.size(); ++t) {
      const Known& other = at(call.tensors[t]);
      if (!other || *axis >= other->size()) return std::nullopt;
      shape[*axis] = shape[*axis] + (*other)[*axis];
    }
    return shape;
  }

  const Program& program_;
  IdVector<TensorId, Known> known_;
  std::map<std::string, const Expr*, std::less<>> definitions_;
  std::vector<std::string> parameters_;
  const Known none_;
};

}  // namespace

IdVector<TensorId, std::optional<SymbolicShape>> symbolic_shapes(const Program& program) {
  return Shapes(program).run();
}

}  // namespace tile
