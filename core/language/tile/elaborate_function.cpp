#include <algorithm>
#include <array>
#include <utility>

#include "core/language/tile/elaborate.h"

namespace tile {
namespace {

// How programs write a whole-tensor function: `leading` sizes, then tensors, then the other sizes.
struct Signature {
  size_t leading = 0;
  size_t tensors = 1, most_tensors = 1;
  size_t sizes = 0, most_sizes = 0;  // after the tensors
};

Signature signature_of(Function function) {
  switch (function) {
    case Function::shape:
      return {};
    case Function::reshape:
    case Function::transpose:
    case Function::prng_uniform:
      return {.most_sizes = kMostDimensions};
    case Function::gather:
    case Function::sum_to:
    case Function::reshape_like:
      return {.tensors = 2, .most_tensors = 2};
    case Function::unslice:
      return {.tensors = 2, .most_tensors = 2, .sizes = 4, .most_sizes = 4};
    case Function::permute_along:
    case Function::scatter:
      return {.tensors = 2, .most_tensors = 2, .sizes = 1, .most_sizes = 1};
    case Function::concat:
      return {.leading = 1, .most_tensors = 1000};
    case Function::slice:
      return {.sizes = 4, .most_sizes = 4};
    case Function::index:
    case Function::argmax:
    case Function::argmin:
    case Function::sort:
    case Function::argsort:
    case Function::cumsum:
      return {.sizes = 1, .most_sizes = 1};
  }
  return {};
}

bool is_builtin(std::string_view name) {
  return name == "builtin_softmax" || name == "builtin_logsoftmax" ||
         name == "builtin_binary_crossentropy";
}

}  // namespace

bool Elaborator::is_tensor_call(const Syntax& node) const {
  return node.kind == SyntaxKind::call &&
         (is_builtin(node.text) || find_whole_tensor_function(node.text));
}

TensorId Elaborator::assign_call(Result result, SyntaxId id) {
  const Syntax& node = at(id);
  if (is_builtin(node.text)) {
    if (node.text == "builtin_binary_crossentropy") {
      return binary_crossentropy(std::move(result), node);
    }
    return softmax(std::move(result), node, node.text == "builtin_logsoftmax");
  }
  Call call = whole_tensor_call(node, *find_whole_tensor_function(node.text));
  return emit(std::move(result), std::move(call), -1);
}

Call Elaborator::whole_tensor_call(const Syntax& node, Function function) {
  Signature takes = signature_of(function);
  check_arity(node, takes.leading + takes.tensors + takes.sizes,
              takes.leading + takes.most_tensors + takes.most_sizes);
  Call call;
  call.function = function;
  size_t tensors_end = takes.most_sizes > 0 ? takes.leading + takes.tensors : node.args.size();
  std::vector<Span> size_spans;
  for (size_t i = 0; i < node.args.size(); ++i) {
    Span span = at(node.args[i]).span;
    if (i >= takes.leading && i < tensors_end) {
      call.tensors.push_back(whole_tensor(node.args[i]));
      call.spans.push_back(span);
    } else {
      call.sizes.push_back(size_expression(node.args[i]));
      size_spans.push_back(span);
    }
  }
  call.spans.insert(call.spans.end(), size_spans.begin(), size_spans.end());
  return call;
}

// A tensor that holds the value of an expression: the one it names, or a generated one.
TensorId Elaborator::whole_tensor(SyntaxId id) {
  const Syntax& node = at(id);
  const Symbol* symbol = node.kind == SyntaxKind::name ? names_.find(node.text) : nullptr;
  if (symbol != nullptr && symbol->kind != Symbol::Kind::dimension) return symbol->tensor;
  if (node.kind == SyntaxKind::call && is_tensor_call(node)) {
    return assign_call(fresh_result(node.span), id);
  }
  ScalarScope scope{.kind = ScalarScope::Kind::elementwise, .argument = true};
  NodeId root = scalar(scope, id);
  scope.body.results = {root};
  return emit(fresh_result(node.span), Elementwise{std::move(scope.operands), tidied(scope.body)},
              -1);
}

// The rank of a statement's result where it follows from those of its operands; -1: bind finds it.
int Elaborator::following_rank(const StatementKind& what) const {
  if (const auto* call = std::get_if<Call>(&what)) return following_rank(*call);
  const auto* elementwise = std::get_if<Elementwise>(&what);
  if (elementwise == nullptr) return -1;
  int most = 0;
  for (TensorId operand : elementwise->operands) {
    if (following_ranks_[operand] < 0) return -1;
    most = std::max(most, following_ranks_[operand]);
  }
  return most;
}

int Elaborator::following_rank(const Call& call) const {
  switch (call.function) {
    case Function::reshape:
    case Function::prng_uniform:
      return static_cast<int>(call.sizes.size());
    case Function::index:
    case Function::transpose:
    case Function::concat:
    case Function::slice:
    case Function::sort:
    case Function::argsort:
    case Function::cumsum:
      return following_ranks_[call.tensors[0]];
    default:
      return -1;
  }
}

// ops applied in turn: the first to all operands, the others to the value so far.
TensorId Elaborator::operation_on(Result result, const std::vector<TensorId>& operands,
                                  std::span<const Op> ops) {
  Elementwise e;
  e.operands = operands;
  std::vector<NodeId> args;
  for (size_t slot = 0; slot < operands.size(); ++slot) {
    args.push_back(e.body.load(slot, DType::none, result.span));
  }
  for (Op op : ops) args = {e.body.operation(op, args, DType::none, result.span)};
  e.body.results = {args[0]};
  return emit(std::move(result), std::move(e), -1);
}

// RESULT[i0, …, 0 : sizes…, 1] = AGG(SOURCE[i0, …, j])
TensorId Elaborator::softmax_reduction(Span span, TensorId source, Aggregation aggregation,
                                       const std::vector<Expr>& sizes) {
  SymbolicContraction c;
  SymbolicAccess access;
  access.tensor = source;
  access.span = c.out_span = span;
  for (size_t d = 0; d + 1 < sizes.size(); ++d) {
    c.indices.push_back("i" + std::to_string(d));
    c.out_index.push_back(Expr::variable(c.indices.back()));
    access.index.push_back(c.out_index.back());
  }
  c.indices.emplace_back("j");
  c.out_index.emplace_back(0);
  access.index.push_back(Expr::variable("j"));
  c.out_size = sizes;
  c.aggregation = aggregation;
  c.accesses.push_back(std::move(access));
  c.body.results = {c.body.load(0, DType::none, span)};
  return emit(fresh_result(span), std::move(c), static_cast<int>(sizes.size()));
}

// builtin_softmax(X, rows, columns) of a matrix along its rows, or builtin_softmax(X) along the
// last dimension of a tensor of declared rank.
TensorId Elaborator::softmax(Result result, const Syntax& node, bool logarithm) {
  check_arity(node, 1, 3);
  TensorId x = whole_tensor(node.args[0]);
  int rank = following_ranks_[x];
  std::vector<Expr> sizes;
  if (node.args.size() > 1) {
    check_arity(node, 3, 3);
    if (rank >= 0 && rank != 2) {
      fail(Stage::parse, "rank", at(node.args[0]).span,
           "'" + std::string(node.text) + "' with sizes needs a matrix, not a tensor of " +
               std::to_string(rank) + " dimensions");
    }
    sizes = {size_expression(node.args[1]), Expr(1)};
    size_expression(node.args[2]);
  } else {
    if (rank < 1) {
      fail(Stage::parse, "rank", at(node.args[0]).span,
           "'" + std::string(node.text) + "' needs a tensor of declared rank, at least 1",
           "declare the dimensions of inputs, as in X[N, M], or give the two sizes of a matrix, as "
           "in " +
               std::string(node.text) + "(X, N, M)");
    }
    const std::string& name = out_.tensors[x].name;
    for (int d = 0; d + 1 < rank; ++d) {
      sizes.push_back(Expr::variable(name + "." + std::to_string(d)));
    }
    sizes.emplace_back(1);
  }
  constexpr std::array kShift = {Op::sub}, kDivide = {Op::div};
  constexpr std::array kShiftExp = {Op::sub, Op::exp};
  TensorId largest = softmax_reduction(node.span, x, Aggregation::max, sizes);
  if (!logarithm) {
    TensorId terms = operation_on(fresh_result(node.span), {x, largest}, kShiftExp);
    TensorId sum = softmax_reduction(node.span, terms, Aggregation::sum, sizes);
    return operation_on(std::move(result), {terms, sum}, kDivide);
  }
  constexpr std::array kExp = {Op::exp}, kLog = {Op::log};
  TensorId shifted = operation_on(fresh_result(node.span), {x, largest}, kShift);
  TensorId terms = operation_on(fresh_result(node.span), {shifted}, kExp);
  TensorId sum = softmax_reduction(node.span, terms, Aggregation::sum, sizes);
  TensorId log_sum = operation_on(fresh_result(node.span), {sum}, kLog);
  return operation_on(std::move(result), {shifted, log_sum}, kShift);
}

// -T * log(P) - (1 - T) * log(1 - P) for the arguments P and T. A third argument scales the
// gradient in PlaidML and has no effect on values.
TensorId Elaborator::binary_crossentropy(Result result, const Syntax& node) {
  check_arity(node, 2, 3);
  TensorId probability = whole_tensor(node.args[0]);
  TensorId target = whole_tensor(node.args[1]);
  if (node.args.size() == 3) size_expression(node.args[2]);
  ScalarScope scope{.kind = ScalarScope::Kind::elementwise};
  Body& body = scope.body;
  auto make = [&](Op op, std::vector<NodeId> args) {
    return body.operation(op, std::move(args), DType::none, node.span);
  };
  NodeId t = tensor_load(scope, target, node.span);
  NodeId minus_t = make(Op::neg, {t});
  NodeId p = tensor_load(scope, probability, node.span);
  NodeId positive = make(Op::mul, {minus_t, make(Op::log, {p})});
  NodeId one = body.integer(1, DType::none, node.span);
  NodeId rest_t = make(Op::sub, {one, t});
  NodeId negative = make(Op::mul, {rest_t, make(Op::log, {make(Op::sub, {one, p})})});
  body.results = {make(Op::sub, {positive, negative})};
  return emit(std::move(result), Elementwise{std::move(scope.operands), tidied(body)}, -1);
}

}  // namespace tile
