#include "core/passes/bind/bind_context.h"

#include <algorithm>
#include <charconv>

#include "core/support/checked.h"
#include "core/support/rank_limit.h"

namespace tile {
namespace {

// Tensors above this many elements are refused whatever their type, so that no position in bytes
// leaves 64 bits.
constexpr int64_t kElementLimit = int64_t{1} << 59;

}  // namespace

std::string shape_text(const Shape& shape) {
  std::string out = "[";
  for (size_t d = 0; d < shape.size(); ++d) {
    out += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  }
  return out + "]";
}

BindContext::BindContext(const Program& symbolic) : program(symbolic) {
  bound.source = program.source;
  bound.inputs = program.inputs;
  bound.outputs = program.outputs;
  for (const Tensor& declared : program.tensors) {
    BoundTensor tensor_of;
    tensor_of.name = declared.name;
    bound.tensors.push_back(std::move(tensor_of));
  }
  for (TensorId id : program.tensors.ids()) {
    tensors_by_name_.emplace(program.tensors[id].name, id);
  }
  for (TensorId id : program.outputs) edit(id).role = TensorRole::output;
  for (TensorId id : program.inputs) edit(id).role = TensorRole::input;
}

void BindContext::bind_input(TensorId id, const InputType& type) {
  const Tensor& declared = program.tensors[id];
  declare(id, type.type, type.shape, declared.span);
  if (declared.type && *declared.type != type.type) {
    fail(Stage::bind, "type", declared.span,
         declared.name + " holds " + std::string(to_string(*declared.type)) +
             ", but the tensor given holds " + std::string(to_string(type.type)));
  }
  for (int64_t size : type.shape) {
    if (size < 0) {
      fail(Stage::bind, "size", declared.span,
           declared.name + " has a negative size: " + shape_text(type.shape));
    }
  }
  if (!declared.ranked) return;
  if (declared.dims.size() != type.shape.size()) {
    fail(Stage::bind, "rank", declared.span,
         declared.name + " is declared with " + std::to_string(declared.dims.size()) +
             " dimensions, but the tensor given has shape " + shape_text(type.shape));
  }
  for (size_t axis = 0; axis < type.shape.size(); ++axis)
    bind_dimension(id, axis, type.shape[axis]);
  bool scalar = declared.parameter && type.shape.empty() && is_integer(declared.parameter->type);
  if (!scalar) return;
  auto initial = static_cast<int64_t>(declared.parameter->init.at(0));
  dimensions_.try_emplace(declared.name, Dimension{type.value.value_or(initial), id});
}

void BindContext::bind_dimension(TensorId id, size_t axis, int64_t size) {
  const Tensor& declared = program.tensors[id];
  const Expr& dim = declared.dims[axis];
  Span span = axis < declared.dim_spans.size() ? declared.dim_spans[axis] : declared.span;
  std::string where = "dimension " + std::to_string(axis) + " of " + declared.name;
  if (dim.kind() == ExprKind::variable) {
    auto [found, fresh] = dimensions_.try_emplace(dim.name(), Dimension{size, id});
    if (fresh || found->second.size == size) return;
    fail(Stage::bind, "dimension", span,
         dim.name() + " is " + std::to_string(found->second.size) + " in " +
             name(found->second.tensor) + ", but " + where + " is " + std::to_string(size));
  }
  if (!dim.is_constant(size)) {
    fail(Stage::bind, "dimension", span,
         where + " must be " + to_string(dim) + ", but it is " + std::to_string(size));
  }
}

std::optional<int64_t> BindContext::lookup(std::string_view variable) {
  auto found = dimensions_.find(variable);
  if (found != dimensions_.end()) return found->second.size;
  size_t dot = variable.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  std::string_view digits = variable.substr(dot + 1);
  size_t axis = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), axis);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  auto tensor_of = tensors_by_name_.find(variable.substr(0, dot));
  if (tensor_of == tensors_by_name_.end()) return std::nullopt;
  const Shape& known = shape(tensor_of->second);
  if (axis >= known.size()) return std::nullopt;
  return known[axis];
}

int64_t BindContext::size_value(const Expr& e, Span span) {
  std::optional<int64_t> value;
  try {
    value = evaluate(e, [&](std::string_view variable) { return lookup(variable); });
  } catch (const Overflow&) {
    fail(Stage::bind, "overflow", span, "the size " + to_string(e) + " does not fit in 64 bits");
  }
  if (value) return *value;
  fail(Stage::bind, "size", span, "the size " + to_string(e) + " has no value with these inputs");
}

void BindContext::check(const SizeCheck& check) {
  int64_t left = size_value(check.left, check.span), right = size_value(check.right, check.span);
  bool holds = check.relation == SizeCheck::Relation::equal      ? left == right
               : check.relation == SizeCheck::Relation::at_least ? left >= right
                                                                 : right > 0 && left % right == 0;
  if (holds) return;
  auto value_of = [](const Expr& e, int64_t value) {
    return e.is_constant() ? std::string()
                           : "; here " + to_string(e) + " is " + std::to_string(value);
  };
  fail(Stage::bind, check.code, check.span,
       check.message + value_of(check.left, left) + value_of(check.right, right));
}

void BindContext::check_sizes() {
  for (const SizeDefinition& size : program.sizes) {
    dimensions_.insert_or_assign(size.name, Dimension{size_value(size.value, {}), TensorId()});
  }
  for (const SizeCheck& size : program.checks) check(size);
}

int64_t BindContext::integer(const Expr& e, TensorId of, Span span) {
  std::optional<int64_t> value;
  try {
    value = evaluate(e, [&](std::string_view variable) { return lookup(variable); });
  } catch (const Overflow&) {
    fail(Stage::bind, "overflow", span,
         "the size " + to_string(e) + " of " + name(of) + " does not fit in 64 bits");
  }
  if (value) return *value;
  std::vector<std::string> variables;
  collect_variables(e, variables);
  for (const std::string& variable : variables) {
    if (lookup(variable)) continue;
    fail(Stage::bind, "dimension", span,
         "the dimension " + variable + " in " + to_string(e) + " of " + name(of) + " is not known");
  }
  fail(Stage::bind, "division", span,
       "the size " + to_string(e) + " of " + name(of) + " divides by zero");
}

int64_t BindContext::size(const Expr& e, TensorId of, Span span) {
  int64_t value = integer(e, of, span);
  if (value >= 0) return value;
  fail(Stage::bind, "size", span,
       "the size " + to_string(e) + " of " + name(of) + " is negative: " + std::to_string(value),
       "no size follows from the others: each is written out, such as M * N");
}

namespace {

// Rational affine forms from expressions; throws Overflow.
class AffineReader {
 public:
  AffineReader(const std::vector<std::string>& indices,
               const std::function<int64_t(const Expr&)>& integer)
      : indices_(indices), integer_(integer) {}

  // nullopt: not affine, or a division by zero.
  std::optional<Affine> read(const Expr& e) const {
    switch (e.kind()) {
      case ExprKind::variable: {
        auto found = std::find(indices_.begin(), indices_.end(), e.name());
        if (found == indices_.end()) return constant_affine(integer_(e));
        return iterator_affine(static_cast<size_t>(found - indices_.begin()));
      }
      case ExprKind::add:
      case ExprKind::sub:
      case ExprKind::mul:
      case ExprKind::neg:
      case ExprKind::exact_div:
        return combine(e);
      default:
        return constant_affine(integer_(e));
    }
  }

 private:
  std::optional<Affine> combine(const Expr& e) const {
    std::vector<Affine> parts;
    for (const Expr& arg : e.args()) {
      std::optional<Affine> part = read(arg);
      if (!part) return std::nullopt;
      parts.push_back(std::move(*part));
    }
    if (e.kind() == ExprKind::neg) return parts[0] * Rational(-1);
    Affine result = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) {
      std::optional<Affine> next = join(e.kind(), result, parts[i]);
      if (!next) return std::nullopt;
      result = std::move(*next);
    }
    return result;
  }

  static std::optional<Affine> join(ExprKind kind, const Affine& a, const Affine& b) {
    if (kind == ExprKind::add) return a + b;
    if (kind == ExprKind::sub) return a - b;
    if (kind == ExprKind::mul && b.is_constant()) return a * b.constant;
    if (kind == ExprKind::mul && a.is_constant()) return b * a.constant;
    if (kind == ExprKind::exact_div && b.is_constant() && !b.constant.is_zero()) {
      return a * (Rational(1) / b.constant);
    }
    return std::nullopt;
  }

  const std::vector<std::string>& indices_;
  const std::function<int64_t(const Expr&)>& integer_;
};

}  // namespace

Affine BindContext::affine(const Expr& e, const std::vector<std::string>& indices, TensorId of,
                           Span span) {
  std::function<int64_t(const Expr&)> number = [&](const Expr& part) {
    return integer(part, of, span);
  };
  try {
    std::optional<Affine> form = AffineReader(indices, number).read(e);
    if (form) return *form;
  } catch (const Overflow&) {
    fail(Stage::bind, "overflow", span,
         "the index " + to_string(e) + " of " + name(of) + " does not fit in 64 bits");
  }
  fail(Stage::bind, "index", span,
       "the index " + to_string(e) + " of " + name(of) +
           " divides by zero or is not linear with these sizes");
}

bool has_affine_form(const Expr& e, const std::vector<std::string>& indices) {
  auto uses_index = [&](const Expr& part) {
    return std::any_of(indices.begin(), indices.end(),
                       [&](const std::string& name) { return uses_variable(part, name); });
  };
  switch (e.kind()) {
    case ExprKind::mul:
      if (std::count_if(e.args().begin(), e.args().end(), uses_index) > 1) return false;
      [[fallthrough]];
    case ExprKind::add:
    case ExprKind::sub:
    case ExprKind::neg:
    case ExprKind::exact_div:
      return std::all_of(e.args().begin(), e.args().end(),
                         [&](const Expr& arg) { return has_affine_form(arg, indices); });
    case ExprKind::variable:
    case ExprKind::constant:
      return true;
    default:
      return !uses_index(e);
  }
}

Expr BindContext::with_sizes(const Expr& e, const std::vector<std::string>& indices,
                             const Ranges& ranges, TensorId of, Span span) {
  std::vector<std::string> variables;
  collect_variables(e, variables);
  std::map<std::string, Expr> numbers;
  for (const std::string& name : variables) {
    if (std::find(indices.begin(), indices.end(), name) != indices.end()) continue;
    numbers.emplace(name, integer(Expr::variable(name), of, span));
  }
  return simplify(substitute(e, numbers), ranges);
}

void BindContext::declare(TensorId id, DType type, Shape shape, Span span) {
  if (shape.size() > kMostDimensions) {
    fail(Stage::bind, "limit", span,
         name(id) + " has " + std::to_string(shape.size()) + " dimensions, more than " +
             std::to_string(kMostDimensions));
  }
  bool fits = true;
  try {
    fits = element_count(shape) <= kElementLimit;
  } catch (const Overflow&) {
    fits = false;
  }
  if (!fits) {
    fail(Stage::bind, "limit", span,
         name(id) + " of shape " + shape_text(shape) + " has too many elements to address");
  }
  edit(id).type = type;
  edit(id).shape = std::move(shape);
}

TensorId BindContext::temporary(TensorId like, const std::string& suffix, DType type, Shape shape,
                                Span span) {
  auto taken = [&](const std::string& candidate) {
    return std::any_of(bound.tensors.begin(), bound.tensors.end(),
                       [&](const BoundTensor& t) { return t.name == candidate; });
  };
  std::string base = name(like) + "_" + suffix, chosen = base;
  for (int i = 1; taken(chosen); ++i) chosen = base + std::to_string(i);
  BoundTensor fresh;
  fresh.name = chosen;
  TensorId id = bound.tensors.add(std::move(fresh));
  declare(id, type, std::move(shape), span);
  return id;
}

Access make_access(TensorId tensor, const std::vector<Affine>& index, Span span) {
  Access access;
  access.tensor = tensor;
  access.span = span;
  for (const Affine& form : index) {
    Index i;
    i.affine = form;
    access.index.push_back(std::move(i));
  }
  return access;
}

std::vector<Affine> iterator_forms(size_t rank) {
  std::vector<Affine> forms;
  for (size_t d = 0; d < rank; ++d) forms.push_back(iterator_affine(d));
  return forms;
}

Piece pointwise_piece(TensorId output, size_t rank) {
  Piece piece;
  for (size_t d = 0; d < rank; ++d) piece.iterators.push_back("i" + std::to_string(d));
  piece.stores.push_back(make_access(output, iterator_forms(rank)));
  return piece;
}

Contraction make_contraction(TensorId output, Aggregation aggregation, DType accumulator,
                             Piece piece, Span span) {
  Contraction contraction;
  contraction.outputs = {output};
  contraction.aggregation = aggregation;
  contraction.accumulator = accumulator;
  contraction.pieces.push_back(std::move(piece));
  contraction.span = span;
  return contraction;
}

DType accumulator_type(Aggregation aggregation, DType output) {
  if (output == DType::bool_ && aggregation == Aggregation::assign) return output;
  return compute_type(output);
}

}  // namespace tile
