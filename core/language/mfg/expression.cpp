#include <algorithm>

#include "core/language/idioms/mfg_idioms.h"
#include "core/language/mfg/builtin_names.h"
#include "core/language/mfg/elaborate.h"
#include "core/support/control.h"
#include "core/support/nearest_name.h"

namespace tile::mfg {

Value Elaborator::expression(SyntaxId id) {
  const Syntax& node = at(id);
  if (++steps_ > kMaxSteps || ++depth_ > kMaxDepth) {
    fail(Stage::parse, "limit", node.span,
         "functions, blocks and expressions stand inside one another more than " +
             std::to_string(kMaxDepth) + " deep, or more than " + std::to_string(kMaxSteps) +
             " are written out");
  }
  Span outer = frames_.span();
  frames_.at(node.span);
  Value value = evaluate_kind(node);
  frames_.at(outer);
  --depth_;
  return value;
}

Value Elaborator::evaluate_kind(const Syntax& node) {
  switch (node.kind) {
    case SyntaxKind::integer:
      return scalar_value(arithmetic_.integer(static_cast<int64_t>(node.integer), node.type));
    case SyntaxKind::real:
      return scalar_value(arithmetic_.real(node.real));
    case SyntaxKind::name:
      return name(node);
    case SyntaxKind::call:
      return call(node);
    case SyntaxKind::method:
      return method(node);
    case SyntaxKind::tensor_reduce:
      return tensor_reduce_value(node);
    case SyntaxKind::tuple:
      return tuple(node);
    case SyntaxKind::swizzle:
      return swizzle(node);
    case SyntaxKind::component:
      return component(node);
    case SyntaxKind::unary: {
      Value operand = expression(node.args[0]);
      return arithmetic_.map(operand,
                             [&](Part p) { return arithmetic_.unary(node.text, p, node.span); });
    }
    case SyntaxKind::binary:
      return binary_chain(node);
    case SyntaxKind::sampler:
      fail(Stage::parse, "syntax", node.span,
           "expected a value: a sampler is named by `let` and then called");
    default:
      fail(Stage::parse, "syntax", node.span, "expected a value");
  }
}

Value Elaborator::name(const Syntax& node) {
  const Binding* local = find_local(node.text);
  std::optional<Binding> found;
  if (local != nullptr) found = *local;
  const Global* global = local == nullptr ? find_global(node.text) : nullptr;
  std::string quoted = "'" + std::string(node.text) + "'";
  if (global != nullptr) {
    if (const auto* let = std::get_if<GlobalLet>(global)) found = global_binding(*let, node.text);
    const auto* tensor = std::get_if<TensorInfo>(global);
    if (tensor != nullptr && tensor->rank == 0) return read_global(*tensor, {});
    if (tensor != nullptr) {
      fail(Stage::parse, "type", node.span, "expected a value, but " + quoted + " is a tensor",
           "name an element, as in " + std::string(node.text) + "(x, y); its size along x is " +
               std::string(node.text) + ".extent(0)");
    }
    if (std::holds_alternative<Function>(*global)) {
      fail(Stage::parse, "type", node.span, "expected a value, but " + quoted + " is a function");
    }
  }
  if (!found) {
    fail(Stage::parse, "name", node.span, "unknown name " + quoted,
         is_builtin_function(node.text) ? quoted + " is a function and needs arguments" : "");
  }
  if (const Value* value = std::get_if<Value>(&*found)) return *value;
  fail(Stage::parse, "type", node.span,
       "expected a value, but " + quoted + " is a tensor or a sampler",
       "name an element, as in " + std::string(node.text) + "(x, y)");
}

// Chains such as a + b + c are as deep as they are long: their left sides are walked, not recursed.
Value Elaborator::binary_chain(const Syntax& node) {
  std::vector<const Syntax*> chain = {&node};
  while (at(chain.back()->args[0]).kind == SyntaxKind::binary) {
    chain.push_back(&at(chain.back()->args[0]));
  }
  Value value = expression(chain.back()->args[0]);
  for (size_t i = chain.size(); i-- > 0;) {
    const Syntax& link = *chain[i];
    Value right = expression(link.args[1]);
    frames_.at(link.span);
    checkpoint();
    if (++steps_ > kMaxSteps) fail(Stage::parse, "limit", link.span, "the expression is too long");
    value = arithmetic_.map(
        value, right,
        [&](Part a, Part b) { return arithmetic_.binary(link.text, a, b, link.span); }, link.span);
  }
  return value;
}

Value Elaborator::tuple(const Syntax& node) {
  std::vector<Part> parts;
  for (SyntaxId arg : node.args) {
    bool splat = at(arg).kind == SyntaxKind::splat;
    Value value = expression(splat ? at(arg).args[0] : arg);
    if (value.type.tuple && !splat) {
      fail(Stage::parse, "type", at(arg).span,
           "expected a number, found " + to_string(value.type) + ": tuples are flat",
           "*t puts the components of t in its place");
    }
    for (size_t i = 0; i < value.parts.size(); ++i) parts.push_back(value.part(i));
    if (parts.size() > kMaxComponents) {
      fail(Stage::parse, "limit", node.span,
           "the tuple has more than " + std::to_string(kMaxComponents) + " components");
    }
  }
  return tuple_value(parts);
}

Value Elaborator::swizzle(const Syntax& node) {
  Value value = expression(node.args[0]);
  std::vector<Part> parts;
  for (char c : node.member) {
    size_t i = std::string_view("xyzw").find(c);
    if (i == std::string_view::npos) {
      fail(Stage::parse, "name", node.span,
           "expected components out of x, y, z and w, found '." + std::string(node.member) + "'",
           "colours are blue, green, red and opacity: x is blue, z red, w opacity");
    }
    if (!value.type.tuple || i >= value.parts.size()) {
      fail(Stage::parse, "type", node.span,
           std::string("a ") + to_string(value.type) + " has no component '" + c + "'");
    }
    parts.push_back(value.part(i));
  }
  return parts.size() == 1 ? scalar_value(parts[0]) : tuple_value(parts);
}

Value Elaborator::component(const Syntax& node) {
  Value value = expression(node.args[0]);
  if (!value.type.tuple || node.integer >= value.parts.size()) {
    fail(Stage::parse, "type", node.span,
         "a " + to_string(value.type) + " has no component " + std::to_string(node.integer));
  }
  return scalar_value(value.part(static_cast<size_t>(node.integer)));
}

// The values of a call's arguments, splats written out.
std::vector<Value> Elaborator::arguments(const Syntax& call) {
  std::vector<Value> values;
  for (SyntaxId arg : call.args) {
    const Syntax& node = at(arg);
    if (node.kind == SyntaxKind::range || node.kind == SyntaxKind::named ||
        node.kind == SyntaxKind::enumerator) {
      fail(Stage::parse, "syntax", node.span,
           "expected a value as an argument of '" + std::string(call.text) + "'",
           node.kind == SyntaxKind::range ? "ranges are arguments of rsum and reduce" : "");
    }
    if (node.kind != SyntaxKind::splat) {
      values.push_back(expression(arg));
      continue;
    }
    Value tuple = expression(node.args[0]);
    for (size_t i = 0; i < tuple.parts.size(); ++i) values.push_back(scalar_value(tuple.part(i)));
  }
  return values;
}

std::vector<Value> Elaborator::arguments(const Syntax& call, size_t count) {
  std::vector<Value> values = arguments(call);
  if (values.size() == count) return values;
  fail(Stage::parse, "arity", call.span,
       "expected " + std::to_string(count) + (count == 1 ? " argument" : " arguments") + " of '" +
           std::string(call.text) + "', found " + std::to_string(values.size()));
}

void Elaborator::expect_block_free(const Syntax& call) const {
  if (call.block < 0) return;
  fail(Stage::parse, "syntax",
       {block_at(call.block).span.begin, block_at(call.block).span.begin + 1},
       "'" + std::string(call.text) + "' takes no block", std::string(idiom_hint(call.text)));
}

Value Elaborator::call(const Syntax& node) {
  if (std::optional<TensorUse> tensor = find_tensor(node.text)) {
    expect_block_free(node);
    return read(*tensor, node);
  }
  const Global* global = find_global(node.text);
  if (global != nullptr && std::holds_alternative<Function>(*global)) {
    expect_block_free(node);
    return call_function(node, std::get<Function>(*global));
  }
  if (node.text == "rsum") return rsum(node);
  if (node.text == "reduce") return reduce(node);
  expect_block_free(node);
  if (node.text == "ifel" || node.text == "elif") return ifel(node);
  if (node.text == "else") return arguments(node, 1)[0];
  if (std::optional<DType> type = parse_scalar(node.text)) return cast(node, *type);
  if (std::optional<Value> value = builtin(node)) return *value;
  unknown_function(node);
}

namespace {

// What people know from other languages, or the name that they may have meant.
std::string hint_for(std::string_view name, const ProgramSyntax& program) {
  if (std::string_view hint = idiom_hint(name); !hint.empty()) return std::string(hint);
  if (std::string hint = foreign_type_hint(name); !hint.empty()) return hint;
  std::vector<std::string_view> known = builtin_functions();
  for (const DeclarationSyntax& d : program.declarations) {
    std::string_view declared =
        d.name.text.empty() ? d.statement.definition.name.text : d.name.text;
    known.push_back(declared);
  }
  std::optional<std::string_view> nearest = nearest_name(name, known);
  return nearest ? "did you mean '" + std::string(*nearest) + "'?" : "";
}

}  // namespace

void Elaborator::unknown_function(const Syntax& node) const {
  std::string quoted = "'" + std::string(node.text) + "'";
  if (node.text == function_) {
    fail(Stage::parse, "recursion", node.span, "the function " + quoted + " calls itself",
         "functions are written out where they are called; use reduce for a loop");
  }
  bool later = std::any_of(
      syntax_.declarations.begin(), syntax_.declarations.end(), [&](const DeclarationSyntax& d) {
        return d.name.text == node.text || d.statement.definition.name.text == node.text;
      });
  if (find_local(node.text) != nullptr || find_global(node.text) != nullptr) {
    fail(Stage::parse, "type", node.span,
         "expected a function or a tensor, but " + quoted + " is a value");
  }
  std::string hint = later
                         ? quoted + " is defined further down: definitions stand before their uses"
                         : hint_for(node.text, syntax_);
  fail(Stage::parse, "name", node.span, "unknown function or tensor " + quoted, std::move(hint));
}

Value Elaborator::cast(const Syntax& node, DType type) {
  std::vector<Value> args = arguments(node, 1);
  return arithmetic_.map(args[0], [&](Part p) { return arithmetic_.convert(p, type); });
}

// ifel(COND, TRUE, FALSE): both arms are computed; neither traps.
Value Elaborator::ifel(const Syntax& node) {
  std::vector<Value> args = arguments(node, 3);
  const Value &condition = args[0], &yes = args[1], &no = args[2];
  if (yes.type != no.type) {
    fail(Stage::parse, "type", node.span,
         "expected arms of one type, found " + to_string(yes.type) + " and " + to_string(no.type));
  }
  for (DType part : condition.type.parts) {
    if (is_integer(part)) continue;
    fail(Stage::parse, "type", node.span,
         "expected an integer condition, found " + to_string(condition.type),
         "a condition compares, as in x > 0.0 or x != 0.0");
  }
  bool fits =
      !condition.type.tuple || (yes.type.tuple && yes.parts.size() == condition.parts.size());
  if (!fits) {
    fail(Stage::parse, "type", node.span,
         "expected arms of " + std::to_string(condition.parts.size()) +
             " components, as many as the condition has, found " + to_string(yes.type));
  }
  std::vector<Ref> conditions;
  for (Ref part : condition.parts) conditions.push_back(frames_.condition(part));
  Value result{yes.type, {}};
  for (size_t i = 0; i < yes.parts.size(); ++i) {
    Ref chosen = conditions[condition.type.tuple ? i : 0];
    result.parts.push_back(frames_.select(chosen, yes.parts[i], no.parts[i]));
  }
  return result;
}

}  // namespace tile::mfg
