// The whole program: the types of `fun`, its arguments as views of tensors, and its result.
#include <algorithm>

#include "core/language/lift/evaluator.h"
#include "core/language/lift/lift.h"
#include "core/language/lift/lower.h"
#include "core/language/type_names.h"
#include "core/support/checked.h"

namespace tile::lift {
namespace {

bool is_call_of(const ProgramSyntax& syntax, const Syntax& node, std::string_view name) {
  return node.kind == SyntaxKind::call && syntax[node.args[0]].kind == SyntaxKind::name &&
         syntax[node.args[0]].text == name;
}

void flatten(const Value& v, std::vector<ScalarPtr>& out) {
  if (v.scalar) out.push_back(v.scalar);
  for (const Value& part : v.parts) flatten(part, out);
}

bool holds_arrays(const Type& type) {
  if (type.kind == TypeKind::array) return true;
  for (const TypePtr& part : type.parts) {
    if (holds_arrays(*part)) return true;
  }
  return false;
}

// Of a number's type that stands here under another name, such as f32 or float.
std::string type_hint(const Syntax& node) {
  if (node.kind == SyntaxKind::call) {
    return "a matrix of N rows is ArrayType(ArrayType(Float, M), N)";
  }
  if (node.kind != SyntaxKind::name) return "";
  std::optional<DType> type = parse_dtype(node.text);
  if (!type) type = foreign_dtype(node.text);
  if (type == DType::f32) return "f32 is written Float";
  if (type == DType::i32) return "i32 is written Int";
  return type ? "numbers are Float, which is f32, and Int, which is i32" : "";
}

}  // namespace

TypePtr Evaluator::type_of(SyntaxId id) {
  const Syntax& node = syntax[id];
  if (node.kind == SyntaxKind::name && node.text == "Float") return scalar_type(TypeKind::float_);
  if (node.kind == SyntaxKind::name && node.text == "Int") return scalar_type(TypeKind::int_);
  if (is_call_of(syntax, node, "ArrayType") && node.args.size() == 3) {
    TypePtr element = type_of(node.args[1]);
    Expr length = context.tidy(size_expression(node.args[2]));
    if (length.is_constant() && length.value() < 1) {
      fail(Stage::parse, "size", syntax[node.args[2]].span,
           "an array needs at least 1 element, found " + to_string(length));
    }
    return array_type(std::move(element), std::move(length));
  }
  fail(Stage::parse, "type", node.span, "expected the type Float, Int or ArrayType(T, SIZE)",
       type_hint(node));
}

Expr Evaluator::size_expression(SyntaxId id) {
  const Syntax& node = syntax[id];
  if (node.kind == SyntaxKind::integer) return node.integer;
  if (node.kind == SyntaxKind::name) {
    context.add_size(node.text);
    return Expr::variable(std::string(node.text));
  }
  if (node.kind == SyntaxKind::operation) {
    std::vector<Expr> e;
    for (SyntaxId arg : node.args) e.push_back(size_expression(arg));
    bool zero = e.size() == 2 && e[1].is_constant(0);
    switch (node.op) {
      case Op::add:
        return e[0] + e[1];
      case Op::sub:
        return e[0] - e[1];
      case Op::mul:
        return e[0] * e[1];
      case Op::div:
        if (!zero) return trunc_div(e[0], e[1]);
        break;
      case Op::mod:
        if (!zero) return trunc_mod(e[0], e[1]);
        break;
      default:
        break;
    }
  }
  fail(Stage::parse, "size", node.span, "expected a size: names and integers with + - * / %");
}

namespace {

// dim = a * N + b for one size N, b and a numbers; nullopt otherwise.
struct LinearSize {
  std::string size;
  int64_t factor = 0, offset = 0;
};
std::optional<LinearSize> linear_size(const Expr& dim) {
  std::optional<LinearForm> form = linear_form(dim);
  if (!form || form->terms.size() != 1) return std::nullopt;
  return LinearSize{form->terms.begin()->first, form->terms.begin()->second, form->constant};
}

}  // namespace

// Sizes are known from dimensions that are a name; other dimensions are checked, and where a name
// stands in such a dimension alone it is solved for.
void Evaluator::declare_inputs(const Syntax& fun) {
  size_t count = fun.args.size() - 2;
  const Syntax& body = syntax[fun.args.back()];
  if (body.kind != SyntaxKind::lambda) {
    fail(Stage::parse, "syntax", body.span,
         "expected a lambda such as `input => ...` after the types");
  }
  if (body.params.size() != count) {
    fail(Stage::parse, "arity", body.span,
         "the lambda has " + std::to_string(body.params.size()) + " parameters, but " +
             std::to_string(count) + " types are given",
         "each parameter has a type before the lambda; several are in parentheses: fun(Float, "
         "Float, "
         "(a, b) => a + b)");
  }
  for (size_t i = 0; i < count; ++i) {
    SyntaxId type_id = fun.args[i + 1];
    TypePtr type = type_of(type_id);
    TypePtr leaf = type;
    Tensor tensor;
    tensor.name = body.params[i].text;
    tensor.span = body.params[i].span;
    tensor.ranked = true;
    std::vector<Expr> shape;
    for (; leaf->kind == TypeKind::array; leaf = leaf->parts[0]) {
      shape.push_back(leaf->length);
      tensor.dims.push_back(leaf->length);
      tensor.dim_spans.push_back(syntax[type_id].span);
    }
    if (tensor.name == "out") {
      fail(Stage::parse, "name", tensor.span, "`out` is the name of the result");
    }
    tensor.type = dtype_of(*leaf);
    TensorId id = context.program.tensors.add(std::move(tensor));
    context.program.inputs.push_back(id);
    context.shapes.push_back(std::move(shape));
    input_types_.push_back(type);
  }
  name_dimensions();
}

void Evaluator::name_dimensions() {
  std::set<std::string> plain;
  for (const std::vector<Expr>& shape : context.shapes) {
    for (const Expr& dim : shape) {
      if (dim.kind() == ExprKind::variable) plain.insert(dim.name());
    }
  }
  for (const std::string& name : plain) {
    context.program.checks.push_back({Expr::variable(name), SizeCheck::Relation::at_least, Expr(1),
                                      "size", "the size " + name + " must be at least 1",
                                      context.program.tensors[0].span});
  }
  for (size_t t = 0; t < context.shapes.size(); ++t) {
    Tensor& tensor = context.program.tensors[t];
    for (size_t d = 0; d < tensor.dims.size(); ++d) {
      const Expr dim = tensor.dims[d];
      if (dim.is_constant() || dim.kind() == ExprKind::variable) continue;
      // A name for the dimension itself that no program can write.
      std::string own = tensor.name + "#" + std::to_string(d);
      tensor.dims[d] = Expr::variable(own);
      std::vector<std::string> used;
      collect_variables(dim, used);
      for (const std::string& name : used) {
        if (!plain.contains(name)) solve_size(name, dim, own, tensor.dim_spans[d]);
        plain.insert(name);
      }
      std::string text = "a dimension of " + tensor.name + " must be " + to_string(dim);
      context.program.checks.push_back({Expr::variable(own), SizeCheck::Relation::equal, dim,
                                        "dimension", text, tensor.dim_spans[d]});
    }
  }
}

void Evaluator::solve_size(const std::string& name, const Expr& dim, const std::string& own,
                           Span span) {
  std::optional<LinearSize> linear = linear_size(dim);
  if (!linear || linear->factor == 0) {
    fail(Stage::parse, "size", span,
         "the size " + name + " does not follow from " + to_string(dim) +
             ": expected a dimension that is " + name + " itself or linear in it");
  }
  Expr solved = trunc_div(Expr::variable(own) - linear->offset, linear->factor);
  context.program.sizes.push_back({name, solved});
  context.program.checks.push_back({Expr::variable(name), SizeCheck::Relation::at_least, Expr(1),
                                    "size", "the size " + name + " must be at least 1", span});
}

namespace {

// The elements of a tensor, from dimension `index.size()` on.
Value input_view(TensorId id, const TypePtr& type, const std::vector<Expr>& index) {
  if (type->kind == TypeKind::array) {
    auto at = [id, type, index](const Expr& e) {
      std::vector<Expr> all = index;
      all.push_back(e);
      return input_view(id, type->parts[0], all);
    };
    return array_value(type, at, 1);
  }
  Scalar load;
  load.kind = ScalarKind::load;
  load.type = dtype_of(*type);
  load.tensor = id;
  load.exprs = index;
  return scalar_value(make_scalar(std::move(load)));
}

}  // namespace

// The scalar or tuple at the loops of a result, which are added to `dims`. With `rows` an array
// that consists of rows has a loop for each of their levels: the result is written through the
// inverse of Join instead of being read through quotients.
Value Evaluator::element_of(const Value& result, bool rows, std::vector<ResultDimension>& dims) {
  Value element = result;
  while (element.array) {
    bool split = rows && !element.array->rows.empty();
    dims.push_back(split ? row_dimension(context, element)
                         : plain_dimension(context, context.fresh(element.length())));
    element = element.array->at(dims.back().index);
  }
  return element;
}

// The tensor that a repeat makes, where its elements are the result as they are.
std::optional<TensorId> Evaluator::repeated(const std::vector<ScalarPtr>& scalars,
                                            const std::vector<ResultDimension>& dims) const {
  const Program& program = context.program;
  if (scalars.empty() || scalars[0]->kind != ScalarKind::load) return std::nullopt;
  TensorId tensor = scalars[0]->tensor;
  bool made = std::any_of(program.statements.begin(), program.statements.end(), [&](const auto& s) {
    return s.result == tensor && std::holds_alternative<Repeat>(s.what);
  });
  bool other =
      std::find(program.outputs.begin(), program.outputs.end(), tensor) != program.outputs.end();
  if (!made || other) return std::nullopt;
  std::vector<Expr> index;
  for (const ResultDimension& dim : dims) index.push_back(dim.index);
  for (size_t i = 0; i < scalars.size(); ++i) {
    std::vector<Expr> at = index;
    if (scalars.size() > 1) at.emplace_back(static_cast<int64_t>(i));
    const Scalar& s = *scalars[i];
    if (s.kind != ScalarKind::load || s.tensor != tensor || s.exprs != at) return std::nullopt;
  }
  const std::vector<Expr>& shape = context.shapes[tensor];
  for (size_t d = 0; d < dims.size(); ++d) {
    if (prove_equal(shape[d], dims[d].size, context.ranges()) != true) return std::nullopt;
  }
  auto count = static_cast<int64_t>(scalars.size());
  if (count > 1 && !shape.back().is_constant(count)) return std::nullopt;
  return tensor;
}

// One tensor for arrays of scalars, or of tuples of like scalars; a tensor for each component else.
void Evaluator::emit_output(const Value& result, const std::string& name, Span span) {
  std::vector<ResultDimension> dims;
  Value element = element_of(result, false, dims);
  std::vector<ScalarPtr> scalars;
  bool whole = !holds_arrays(*element.type);
  if (whole) flatten(element, scalars);
  for (const ScalarPtr& s : scalars) whole = whole && s->type == scalars[0]->type;
  bool quotients = std::any_of(scalars.begin(), scalars.end(),
                               [&](const ScalarPtr& s) { return needs_quotients(context, *s); });
  if (whole && quotients) {
    dims.clear();
    scalars.clear();
    flatten(element_of(result, true, dims), scalars);
  }
  if (whole) {
    std::optional<TensorId> made = repeated(scalars, dims);
    if (made) context.program.tensors[*made].name = name;
    TensorId id = made ? *made : lower(context, scalars, dims, name, span);
    context.program.outputs.push_back(id);
    context.program.output_spans.push_back(span);
    return;
  }
  for (size_t p = 0; p < element.parts.size(); ++p) {
    emit_output(component_of(result, p), name + "." + std::to_string(p), span);
  }
}

Value Evaluator::component_of(const Value& v, size_t p) {
  if (!v.array) return v.parts[p];
  Value sample = component_of(v.array->at(context.fresh(v.length())), p);
  return array_of(
      v.length(), sample.type,
      [this, v, p](const Expr& e) { return component_of(v.array->at(e), p); }, v.array->depth);
}

Program Evaluator::run() {
  const DefinitionSyntax& main = syntax.definitions.back();
  const Syntax& fun = syntax[main.value];
  if (!is_call_of(syntax, fun, "fun") || fun.args.size() < 3) {
    fail(Stage::parse, "syntax", fun.span,
         "expected fun(TYPE, ..., parameters => body) as the value of " + quoted(main.name.text),
         "as in val f = fun(ArrayType(Float, N), a => Map(square) $ a)");
  }
  visible_definitions_ = syntax.definitions.size() - 1;
  declare_inputs(fun);
  const Syntax& lambda = syntax[fun.args.back()];
  Environment environment;
  for (size_t i = 0; i < lambda.params.size(); ++i) {
    Value input = input_view(context.program.inputs[i], input_types_[i], {});
    environment = std::make_shared<const Binding>(
        Binding{lambda.params[i].text, std::move(input), environment});
  }
  Span span = syntax[lambda.args[0]].span;
  Value result = evaluate(lambda.args[0], environment);
  if (result.function) fail_type(span, "a program that returns data", *result.type);
  emit_output(result, "out", span);
  return std::move(context.program);
}

}  // namespace tile::lift

namespace tile {

Program parse_lift(SourcePtr source) {
  lift::ProgramSyntax syntax = lift::parse_syntax(source->text);
  try {
    return lift::Evaluator(source, syntax).run();
  } catch (const Overflow&) {
    fail(Stage::parse, "overflow", {}, "a size or an index of the program does not fit in 64 bits");
  }
}

}  // namespace tile
