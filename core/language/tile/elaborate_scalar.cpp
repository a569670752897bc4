#include <algorithm>
#include <array>

#include "core/language/idioms/tile_idioms.h"
#include "core/language/tile/casts.h"
#include "core/language/tile/elaborate.h"
#include "core/support/nearest_name.h"

namespace tile {
namespace {

using Kind = ScalarScope::Kind;

constexpr auto kCasts = std::to_array<std::string_view>(
    {"as_float", "as_bf16", "as_f8e4m3", "as_f8e5m2", "as_int", "as_uint", "as_bool"});
constexpr auto kBuiltins = std::to_array<std::string_view>(
    {"builtin_softmax", "builtin_logsoftmax", "builtin_binary_crossentropy"});

std::optional<DType> type_of_width(std::string_view cast, int64_t width) {
  std::string prefix = cast == "as_float" ? "f" : cast == "as_int" ? "i" : "u";
  if (width < 8 || width > 64) return std::nullopt;
  return parse_dtype(prefix + std::to_string(width));
}

// Of an access or a call: its name alone.
Span name_span(const Syntax& node) {
  return {node.span.begin, node.span.begin + static_cast<uint32_t>(node.text.size())};
}

std::string_view widths(std::string_view cast) {
  return cast == "as_float" ? "16, 32 or 64" : "8, 16, 32 or 64";
}

}  // namespace

std::span<const std::string_view> cast_functions() { return kCasts; }

Body Elaborator::scalar_expression(std::span<const std::string_view> operands) {
  ScalarScope scope{.kind = Kind::operands, .operand_names = operands};
  NodeId root = scalar(scope, static_cast<SyntaxId>(syntax_.nodes.size()) - 1);
  scope.body.results = {root};
  return tidied(scope.body);
}

// Without recursion: names for values may stand in a chain of any length.
NodeId Elaborator::scalar(ScalarScope& scope, SyntaxId id) {
  std::vector<PendingScalar> pending;
  pending.push_back(begin_scalar(scope, id));
  while (true) {
    PendingScalar& top = pending.back();
    if (top.args.size() < top.operands.size()) {
      pending.push_back(begin_scalar(scope, top.operands[top.args.size()]));
      continue;
    }
    NodeId value = end_scalar(scope, std::move(top));
    pending.pop_back();
    if (pending.empty()) return value;
    pending.back().args.push_back(value);
  }
}

Elaborator::PendingScalar Elaborator::begin_scalar(const ScalarScope& scope, SyntaxId id) const {
  const Syntax& node = at(id);
  switch (node.kind) {
    case SyntaxKind::operation:
      return {id, node.args, {}};
    case SyntaxKind::match:
      check_match(node);
      return {id, node.args, {}};
    case SyntaxKind::call:
      return {id, operands_of_call(scope, node), {}};
    case SyntaxKind::bound:
      if (scope.argument) {
        fail(Stage::parse, "name", node.span,
             "the value " + quoted(node.span) +
                 " cannot stand in an argument of a function on whole tensors",
             "assign it to a tensor in a statement of its own");
      }
      if (scope.bound.contains(node.args[0])) return {id, {}, {}};
      return {id, node.args, {}};
    default:
      return {id, {}, {}};
  }
}

NodeId Elaborator::end_scalar(ScalarScope& scope, PendingScalar pending) {
  const Syntax& node = at(pending.id);
  switch (node.kind) {
    case SyntaxKind::integer:
      return scope.body.integer(node.integer, DType::none, node.span);
    case SyntaxKind::real:
      return scope.body.real(node.real, DType::none, node.span);
    case SyntaxKind::extent:
      return scope.body.size(extent(node), DType::none, node.span);
    case SyntaxKind::name:
      return scalar_name(scope, node);
    case SyntaxKind::access:
      return scalar_access(scope, node);
    case SyntaxKind::call:
      return scalar_call(scope, std::move(pending));
    case SyntaxKind::match:
      return scalar_match(scope, std::move(pending.args), node.span);
    case SyntaxKind::bound:
      return scalar_bound(scope, pending);
    case SyntaxKind::operation:
      break;
  }
  return scope.body.operation(node.op, std::move(pending.args), DType::none, node.span);
}

// One node, however often the name is used.
NodeId Elaborator::scalar_bound(ScalarScope& scope, const PendingScalar& pending) {
  SyntaxId value = at(pending.id).args[0];
  if (!pending.args.empty()) scope.bound.emplace(value, pending.args[0]);
  return scope.bound.at(value);
}

NodeId Elaborator::scalar_name(ScalarScope& scope, const Syntax& node) {
  if (scope.kind == Kind::operands) return scalar_operand(scope, node);
  std::string name(node.text);
  bool upper = name[0] >= 'A' && name[0] <= 'Z';
  const Symbol* symbol = names_.find(name);
  if (upper && symbol != nullptr && symbol->kind == Symbol::Kind::dimension) {
    return scope.body.size(Expr::variable(name), DType::none, node.span);
  }
  if (scope.kind == Kind::contraction && !upper) {
    return scope.body.index(index_slot(node.text), DType::none, node.span);
  }
  if (!upper) {
    fail(Stage::parse, "name", node.span, "index '" + name + "' cannot stand outside a contraction",
         "tensor and dimension names start with an upper-case letter; index(T, axis) gives "
         "positions along an axis");
  }
  const Symbol& tensor = names_.tensor(name, node.span);
  if (scope.kind == Kind::contraction) {
    fail(
        Stage::parse, "rank", node.span,
        "tensor '" + name + "' is read without indices inside a contraction",
        "write one index for each dimension, as in " + name + (tensor.rank == 0 ? "[]" : "[i, j]"));
  }
  return tensor_load(scope, tensor.tensor, node.span);
}

NodeId Elaborator::scalar_operand(ScalarScope& scope, const Syntax& node) const {
  auto begin = scope.operand_names.begin();
  auto it = std::find(begin, scope.operand_names.end(), node.text);
  if (it == scope.operand_names.end()) {
    fail(Stage::parse, "name", node.span, "undefined operand '" + std::string(node.text) + "'");
  }
  return scope.body.load(it - begin, DType::none, node.span);
}

NodeId Elaborator::tensor_load(ScalarScope& scope, TensorId tensor, Span span) {
  auto [it, inserted] =
      scope.slot_of_tensor.emplace(tensor, static_cast<int>(scope.operands.size()));
  if (inserted) scope.operands.push_back(tensor);
  return scope.body.load(it->second, DType::none, span);
}

// Of an access in a statement over whole tensors, where functions may have been meant.
std::string Elaborator::access_hint(const Syntax& node) const {
  std::string name(node.text);
  if (find_function(node.text)) {
    return "the arguments of a function are in parentheses: " + name + "(A)";
  }
  bool of_tensor = node.args.size() == 1 && at(node.args[0]).kind == SyntaxKind::name;
  const Symbol* index = of_tensor ? names_.find(at(node.args[0]).text) : nullptr;
  if (index != nullptr && index->kind != Symbol::Kind::dimension) {
    return "rows at positions that a tensor holds are gather(" + name + ", " +
           std::string(at(node.args[0]).text) + ")";
  }
  return "contractions have sizes and an aggregation, as in O[i: N] = +(" + name + "[i, j])";
}

NodeId Elaborator::scalar_access(ScalarScope& scope, const Syntax& node) {
  std::string name(node.text);
  if (scope.kind != Kind::contraction) {
    fail(Stage::parse, "syntax", node.span,
         quoted(node.span) + " is read by index outside a contraction", access_hint(node));
  }
  const Symbol& tensor = names_.tensor(name, name_span(node));
  if (tensor.rank >= 0 && node.args.size() != static_cast<size_t>(tensor.rank)) {
    fail(Stage::parse, "rank", node.span,
         "tensor '" + name + "' has " + std::to_string(tensor.rank) + " dimensions but " +
             quoted(node.span) + " gives " + std::to_string(node.args.size()) + " indices");
  }
  if (node.args.size() > kMostDimensions) {
    fail(Stage::parse, "limit", node.span,
         "an access has more than " + std::to_string(kMostDimensions) + " indices");
  }
  SymbolicAccess access;
  access.tensor = tensor.tensor;
  access.span = node.span;
  std::string key = to_string(tensor.tensor);
  for (SyntaxId arg : node.args) {
    access.index.push_back(index_expression(arg));
    key += "," + to_string(access.index.back());
  }
  auto next = static_cast<int>(contraction_->accesses.size());
  auto [it, inserted] = scope.slot_of_access.emplace(std::move(key), next);
  if (inserted) contraction_->accesses.push_back(std::move(access));
  return scope.body.load(it->second, DType::none, node.span);
}

void Elaborator::check_match(const Syntax& node) const {
  const Syntax& condition = at(node.args[0]);
  bool classic = condition.kind == SyntaxKind::operation && condition.op == Op::eq &&
                 at(condition.args[0]).kind == SyntaxKind::access &&
                 at(condition.args[1]).kind == SyntaxKind::access &&
                 at(node.args[1]).kind == SyntaxKind::access;
  if (!classic) {
    fail(Stage::parse, "syntax", {node.span.end, node.span.end + 1},
         "expected ':' and the value for the other case",
         "only A[i] == B[j] ? C[k] may leave it out");
  }
}

// A[…] == B[…] ? C[…]: zero where they differ (rule 4.10).
NodeId Elaborator::scalar_match(ScalarScope& scope, std::vector<NodeId> args, Span span) {
  args.push_back(scope.body.integer(0, DType::none, span));
  return scope.body.operation(Op::select, std::move(args), DType::none, span);
}

void Elaborator::check_arity(const Syntax& node, size_t least, size_t most) const {
  size_t given = node.args.size();
  if (given >= least && given <= most) return;
  std::string takes = least == most      ? std::to_string(least)
                      : most == SIZE_MAX ? "at least " + std::to_string(least)
                                         : std::to_string(least) + " to " + std::to_string(most);
  fail(Stage::parse, "arity", node.span,
       "function '" + std::string(node.text) + "' takes " + takes +
           (takes == "1" ? " argument" : " arguments") + ", not " + std::to_string(given),
       std::string(call_form(node.text)));
}

std::span<const SyntaxId> Elaborator::operands_of_call(const ScalarScope& scope,
                                                       const Syntax& node) const {
  std::span<const SyntaxId> args = node.args;
  if (cast_target(node)) return args.first(1);
  if (is_tensor_call(node)) {
    if (scope.kind == Kind::elementwise) return {};
    fail(Stage::parse, "function", node.span,
         "function '" + std::string(node.text) + "' works on whole tensors and cannot stand here",
         "assign it to a tensor in a statement of its own");
  }
  std::optional<Op> op = find_function(node.text);
  if (!op) fail_unknown_function(node);
  auto arity = static_cast<size_t>(info(*op).arity);
  check_arity(node, arity, arity);
  return args;
}

NodeId Elaborator::scalar_call(ScalarScope& scope, PendingScalar pending) {
  const Syntax& node = at(pending.id);
  if (std::optional<DType> type = cast_target(node)) {
    return scope.body.operation(Op::cast, std::move(pending.args), *type, node.span);
  }
  if (is_tensor_call(node)) return tensor_load(scope, whole_tensor(pending.id), node.span);
  Op op = *find_function(node.text);
  return scope.body.operation(op, std::move(pending.args), DType::none, node.span);
}

// The type that a cast converts to; nullopt if the call is not a cast.
std::optional<DType> Elaborator::cast_target(const Syntax& node) const {
  if (std::find(kCasts.begin(), kCasts.end(), node.text) == kCasts.end()) return std::nullopt;
  // as_bool, as_bf16 …: the type's own name; the others need a width.
  std::optional<DType> named = parse_dtype(node.text.substr(std::string_view("as_").size()));
  check_arity(node, named ? 1 : 2, named ? 1 : 2);
  if (named) return named;
  const Syntax& width = at(node.args[1]);
  std::optional<DType> type;
  if (width.kind == SyntaxKind::integer) type = type_of_width(node.text, width.integer);
  if (!type) {
    fail(Stage::parse, "type", width.span,
         "the width of '" + std::string(node.text) + "' must be " + std::string(widths(node.text)) +
             ", not " + quoted(width.span));
  }
  return type;
}

void Elaborator::fail_unknown_function(const Syntax& node) const {
  std::vector<std::string_view> candidates(kCasts.begin(), kCasts.end());
  candidates.insert(candidates.end(), kBuiltins.begin(), kBuiltins.end());
  for (const OpInfo& row : operations()) {
    if (find_function(row.spelling)) candidates.push_back(row.spelling);
  }
  for (Function f : whole_tensor_functions()) candidates.push_back(to_string(f));
  std::string hint;
  std::optional<std::string_view> nearest = nearest_name(node.text, candidates);
  bool tensor = node.text[0] >= 'A' && node.text[0] <= 'Z';
  if (tensor) hint = "an element of a tensor is " + std::string(node.text) + "[i, j]";
  if (nearest) hint = "did you mean '" + std::string(*nearest) + "'?";
  if (std::string cast = cast_hint(node.text); !cast.empty()) hint = std::move(cast);
  if (std::string_view idiom = idiom_hint(node.text); !idiom.empty()) hint = idiom;
  fail(Stage::parse, "function", name_span(node),
       "unknown function '" + std::string(node.text) + "'", std::move(hint));
}

}  // namespace tile
