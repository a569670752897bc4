// Tensor definitions as statements of a Program; sizes as expressions.
#include <algorithm>

#include "core/language/mfg/elaborate.h"

namespace tile::mfg {

void Elaborator::define(const DefinitionSyntax& d) {
  check_new_name(d.name.text, d.name.span);
  bool u8 = d.name.text == "result_u8", u16 = d.name.text == "result_u16";
  if ((u8 && globals_.contains("result_u16")) || (u16 && globals_.contains("result_u8"))) {
    fail(Stage::parse, "name", d.name.span,
         "expected one result: result_u8 and result_u16 are both defined");
  }
  fresh_body();
  if (!d.literal.empty()) {
    define_literal(d);
  } else if (d.reduce >= 0) {
    define_reduce(d);
  } else {
    define_block(d);
  }
}

void Elaborator::define_literal(const DefinitionSyntax& d) {
  Literal literal;
  literal.type = at(d.literal[0]).type;
  for (SyntaxId id : d.literal) {
    const Syntax& node = at(id);
    if (node.type != literal.type) {
      fail(Stage::parse, "type", node.span,
           "expected a tensor literal of one type, found " + std::string(to_string(literal.type)) +
               " and " + std::string(to_string(node.type)));
    }
    Scalar value = node.kind == SyntaxKind::real
                       ? real_scalar(node.real, literal.type)
                       : integer_scalar(static_cast<int64_t>(node.integer), literal.type);
    if (is_float(literal.type)) {
      literal.reals.push_back(value.f);
    } else {
      literal.integers.push_back(value.i);
    }
  }
  auto count = static_cast<int64_t>(d.literal.size());
  literal.shape =
      d.rows > 0 ? std::vector<int64_t>{d.rows, count / d.rows} : std::vector<int64_t>{count};
  TensorInfo info;
  info.name = d.name.text;
  info.rank = static_cast<int>(literal.shape.size());
  info.extents.assign(literal.shape.rbegin(), literal.shape.rend());
  info.element = scalar_type(literal.type);
  check_result(d, Value{info.element, {}}, d.span);
  info.ids = {add_tensor(info.name, d.name.span)};
  out_.statements.push_back({info.ids[0], d.span, {}, std::move(literal)});
  declare(d.name.text, d.name.span, std::move(info));
}

std::optional<Scalar> Elaborator::literal_element(TensorId tensor,
                                                  std::span<const int64_t> index) const {
  for (const Statement& s : out_.statements) {
    const auto* literal = std::get_if<Literal>(&s.what);
    if (s.result != tensor || literal == nullptr) continue;
    int64_t at = 0;
    for (size_t d = 0; d < literal->shape.size(); ++d) {
      at = at * literal->shape[d] + std::clamp<int64_t>(index[d], 0, literal->shape[d] - 1);
    }
    auto i = static_cast<size_t>(at);
    return is_float(literal->type) ? Scalar{literal->type, 0, literal->reals[i]}
                                   : Scalar{literal->type, literal->integers[i], 0};
  }
  return std::nullopt;
}

// The size expressions of @bounds, x first.
std::vector<Expr> Elaborator::bounds(const DefinitionSyntax& d) {
  std::vector<Expr> extents;
  for (SyntaxId id : *d.bounds) {
    Value v = expression(id);
    for (size_t i = 0; i < v.parts.size(); ++i) {
      if (!is_integer(v.type.parts[i]) || v.type.tuple) {
        fail(Stage::parse, "type", at(id).span,
             "expected integers in @bounds, found " + to_string(v.type));
      }
      extents.push_back(size_expression(v.parts[i], at(id).span));
      if (extents.back().is_constant() && extents.back().value() < 0) {
        fail(Stage::parse, "bounds", at(id).span, "expected a size, found a negative number");
      }
    }
  }
  return extents;
}

// A result without @bounds has the size of the input: of the one with the result's own type if
// there is one, else of the first with two dimensions.
std::vector<Expr> Elaborator::result_extents(const DefinitionSyntax& d) {
  if (!d.name.text.starts_with("result_")) {
    fail(Stage::parse, "bounds", d.name.span,
         "expected @bounds before the definition of '" + std::string(d.name.text) + "'",
         "write @bounds(W, H) on the line before");
  }
  std::string own = "input_" + std::string(d.name.text.substr(7));
  const TensorInfo* chosen = nullptr;
  for (TensorId id : out_.inputs) {
    const Global* global = find_global(out_.tensors[id].name);
    const auto* info = global != nullptr ? std::get_if<TensorInfo>(global) : nullptr;
    if (info == nullptr || info->rank != 2) continue;
    if (chosen == nullptr || info->name == own) chosen = info;
  }
  if (chosen == nullptr) {
    fail(Stage::parse, "bounds", d.name.span,
         "expected @bounds: no input gives '" + std::string(d.name.text) + "' its size",
         "write @bounds(W, H) on the line before");
  }
  return chosen->extents;
}

// The statement's indices, which are y, x, in the order x, y.
std::vector<Ref> Elaborator::pixel_indices(size_t rank) {
  std::vector<Ref> refs;
  for (size_t d = 0; d < rank; ++d) refs.push_back(frames_.index(rank - 1 - d));
  return refs;
}

void Elaborator::define_block(const DefinitionSyntax& d) {
  size_t rank = block_at(d.block).parameters.size();
  if (rank < 1 || rank > 2) {
    fail(Stage::parse, "arity", d.name.span,
         "expected one or two indices of the tensor '" + std::string(d.name.text) + "', found " +
             std::to_string(rank));
  }
  std::vector<Expr> extents = d.bounds ? bounds(d) : result_extents(d);
  if (extents.size() != rank) {
    fail(Stage::parse, "arity", d.bounds ? d.bounds_span : d.name.span,
         "expected " + std::to_string(rank) + (rank == 1 ? " size" : " sizes") +
             " in @bounds for the indices of '" + std::string(d.name.text) + "', found " +
             std::to_string(extents.size()));
  }
  fresh_body();
  extents_ = extents;
  pixel_ = pixel_indices(rank);
  std::vector<Value> index;
  for (Ref i : pixel_) index.push_back(scalar_value({i, DType::i32}));
  Value value = run_block(d.block, block_arguments(d.block, index, "def"));
  check_result(d, value, at(block_at(d.block).value).span);
  emit_tensor(d, value, std::move(extents));
}

// def m by reduce<T>.accumulate(dim=…, init=…): a tensor over the dimension that is left.
void Elaborator::define_reduce(const DefinitionSyntax& d) {
  Reduction r = reduction(at(d.reduce));
  std::vector<Expr> extents = {Expr(1)};
  std::optional<Ref> position;
  if (r.tensor.rank() == 2) {
    extents = {r.tensor.global->extents[r.dimension == 0 ? 1 : 0]};
    pixel_ = pixel_indices(1);
    position = pixel_[0];
  }
  extents_ = extents;
  Value value = reduce_along(r, position);
  check_result(d, value, d.span);
  emit_tensor(d, value, std::move(extents));
}

namespace {

// How a value of another type becomes a result.
std::string result_hint(const Type& wanted, const Type& found) {
  if (!wanted.tuple) {
    return found.tuple ? "one component of a tuple t is t.x"
                       : "write 1.0 for a number; f32(…) converts a value";
  }
  const std::string type(to_string(wanted.parts[0]));
  std::string cast = "cast with " + type + "[b, g, r, a]";
  bool light = found.tuple && found.uniform() && found.parts[0] == DType::f32;
  return light ? cast + ", or with to_" + type + "color(c) from a colour between 0.0 and 1.0"
               : cast;
}

}  // namespace

void Elaborator::check_result(const DefinitionSyntax& d, const Value& value, Span span) {
  std::optional<Type> wanted;
  if (d.name.text == "result_u8") wanted = tuple_type(std::vector<DType>(4, DType::u8));
  if (d.name.text == "result_u16") wanted = tuple_type(std::vector<DType>(4, DType::u16));
  if (d.name.text == "result_f32") wanted = scalar_type(DType::f32);
  bool fits = !wanted || value.type == *wanted;
  // result_f32 may hold several components too.
  if (d.name.text == "result_f32") fits = value.type.uniform() && value.type.parts[0] == DType::f32;
  if (fits) return;
  fail(Stage::parse, "type", span,
       "expected a value of type " + to_string(*wanted) + " for '" + std::string(d.name.text) +
           "', found " + to_string(value.type),
       result_hint(*wanted, value.type));
}

// Like-typed tuples become one tensor with a last dimension, others one tensor for each component.
void Elaborator::emit_tensor(const DefinitionSyntax& d, const Value& value,
                             std::vector<Expr> extents) {
  TensorInfo info;
  info.name = d.name.text;
  info.rank = static_cast<int>(extents.size());
  info.extents = extents;
  info.element = value.type;
  bool single = value.type.uniform();
  if (single) {
    info.ids = {add_tensor(info.name, d.name.span)};
    emit_statement(info.ids[0], d, value, extents);
  } else {
    for (size_t i = 0; i < value.parts.size(); ++i) {
      TensorId id = add_tensor(info.name + "." + std::to_string(i), d.name.span);
      info.ids.push_back(id);
      emit_statement(id, d, scalar_value(value.part(i)), extents);
    }
  }
  declare(d.name.text, d.name.span, std::move(info));
}

void Elaborator::emit_statement(TensorId result, const DefinitionSyntax& d, const Value& value,
                                const std::vector<Expr>& extents) {
  SymbolicContraction c;
  c.typed = true;
  c.aggregation = Aggregation::assign;
  c.out_span = d.name.span;
  c.components = value.type.tuple ? static_cast<int>(value.type.size()) : 0;
  for (size_t i = extents.size(); i-- > 0;) {
    // A name that no size has.
    std::string index = i == 0 ? "x'" : "y'";
    c.indices.push_back(index);
    c.out_index.push_back(Expr::variable(index));
    c.out_size.push_back(extents[i]);
  }
  std::vector<Ref> results;
  for (size_t i = 0; i < value.parts.size(); ++i) {
    frames_.at(d.span);
    results.push_back(frames_.cast(value.parts[i], value.type.parts[i]));
  }
  c.body = frames_.finish(results);
  settle_accesses(c, frames_.accesses(), [&](TensorId id) {
    IdVector<NodeId, Expr> sizes;
    for (const auto& [name, global] : globals_) {
      const auto* info = std::get_if<TensorInfo>(&global);
      if (info == nullptr) continue;
      if (std::find(info->ids.begin(), info->ids.end(), id) == info->ids.end()) continue;
      sizes.assign(info->extents.rbegin(), info->extents.rend());
    }
    return sizes;
  });
  out_.statements.push_back({result, d.span, {}, std::move(c)});
}

namespace {

Expr not_of(const Expr& e) { return equal(e, 0); }

// The operation on sizes; nullopt where sizes have no such operation.
std::optional<Expr> size_operation(Op op, const std::vector<Expr>& a) {
  switch (op) {
    case Op::add:
      return a[0] + a[1];
    case Op::sub:
      return a[0] - a[1];
    case Op::mul:
      return a[0] * a[1];
    case Op::neg:
      return -a[0];
    case Op::div:
      return trunc_div(a[0], a[1]);
    case Op::mod:
      return trunc_mod(a[0], a[1]);
    case Op::min:
      return min(a[0], a[1]);
    case Op::max:
      return max(a[0], a[1]);
    case Op::abs:
      return max(a[0], -a[0]);
    case Op::eq:
      return equal(a[0], a[1]);
    case Op::ne:
      return not_of(equal(a[0], a[1]));
    case Op::lt:
      return less(a[0], a[1]);
    case Op::gt:
      return less(a[1], a[0]);
    case Op::le:
      return not_of(less(a[1], a[0]));
    case Op::ge:
      return not_of(less(a[0], a[1]));
    case Op::logical_and:
      return a[0] * a[1];
    case Op::logical_or:
      return max(a[0], a[1]);
    case Op::logical_not:
      return not_of(a[0]);
    case Op::select:
      return select(a[0], a[1], a[2]);
    case Op::cast:
      return a[0];
    default:
      return std::nullopt;
  }
}

}  // namespace

// Sizes are integer arithmetic on extents, parameters and constants.
Expr Elaborator::size_expression(Ref value, Span span) {
  std::vector<Frames::AccessKey> accesses = frames_.accesses();
  Body body = frames_.finish({value});
  if (body.nodes.size() > kMaxSizeNodes) {
    fail(Stage::parse, "limit", span,
         "the size has more than " + std::to_string(kMaxSizeNodes) + " operations");
  }
  IdVector<NodeId, std::optional<Expr>> sizes;
  for (const Node& n : body.nodes) {
    std::optional<Expr> size;
    std::vector<Expr> args;
    for (NodeId arg : n.args) {
      if (sizes[arg]) args.push_back(*sizes[arg]);
    }
    bool known = args.size() == n.args.size();
    bool integral = n.type == DType::bool_ || is_integer(n.type);
    if (n.kind == NodeKind::integer) size = Expr(n.integer);
    if (n.kind == NodeKind::size) size = n.expr;
    if (n.kind == NodeKind::operation && known && integral) size = size_operation(n.op, args);
    if (n.kind == NodeKind::load) {
      const Frames::AccessKey& key = accesses[n.slot];
      const Tensor& tensor = out_.tensors[key.tensor];
      if (tensor.parameter && key.component < 0 && is_integer(n.type)) {
        size = Expr::variable(tensor.name);
      }
    }
    sizes.push_back(std::move(size));
  }
  std::optional<Expr> result = sizes[body.results[0]];
  if (result) return *result;
  fail(Stage::parse, "bounds", span,
       "expected a size made of integers, extents and parameters by integer arithmetic",
       "elements of tensors and floating-point numbers are known too late");
}

}  // namespace tile::mfg
