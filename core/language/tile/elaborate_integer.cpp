#include <algorithm>

#include "core/language/tile/elaborate.h"

namespace tile {

Elaborator::Integer Elaborator::integer(IntegerKind kind, SyntaxId id) {
  const Syntax& node = at(id);
  switch (node.kind) {
    case SyntaxKind::integer:
      return {Expr(node.integer)};
    case SyntaxKind::name:
      return integer_name(kind, node);
    case SyntaxKind::extent:
      return {extent(node)};
    case SyntaxKind::operation:
      return integer_operation(kind, id);
    case SyntaxKind::call:
      return integer_call(kind, id);
    case SyntaxKind::real:
    case SyntaxKind::access:
    case SyntaxKind::match:
    case SyntaxKind::bound:
      break;
  }
  fail_not_integer(kind, id);
}

Elaborator::Integer Elaborator::integer_name(IntegerKind kind, const Syntax& node) {
  bool upper = node.text[0] >= 'A' && node.text[0] <= 'Z';
  if (upper) {
    names_.require_dimension(node.text, node.span);
    return {Expr::variable(std::string(node.text))};
  }
  if (kind == IntegerKind::size) {
    fail(Stage::parse, "name", node.span,
         "index '" + std::string(node.text) + "' cannot stand in a size",
         "sizes are made of integers and dimensions, whose names start with an upper-case letter");
  }
  index_slot(node.text);
  return {Expr::variable(std::string(node.text)), true};
}

int Elaborator::index_slot(std::string_view name) {
  auto next = static_cast<int>(contraction_->indices.size());
  auto [it, inserted] = slot_of_index_.emplace(name, next);
  if (inserted) contraction_->indices.emplace_back(name);
  return it->second;
}

// NAME.axis: the extent of a tensor that is already defined.
Expr Elaborator::extent(const Syntax& node) const {
  int rank = names_.tensor(node.text, node.span).rank;
  if (rank >= 0 && node.integer >= rank) {
    fail(Stage::parse, "rank", node.span,
         "tensor '" + std::string(node.text) + "' has " + std::to_string(rank) +
             " dimensions, so " + quoted(node.span) + " does not exist",
         "dimensions are counted from 0");
  }
  return Expr::variable(std::string(node.text) + "." + std::to_string(node.integer));
}

Elaborator::Integer Elaborator::integer_operation(IntegerKind kind, SyntaxId id) {
  const Syntax& node = at(id);
  switch (node.op) {
    case Op::add:
    case Op::mul:
      return integer_chain(kind, id);
    case Op::neg: {
      Integer a = integer(kind, node.args[0]);
      if (a.expr.kind() == ExprKind::neg) return {a.expr.args()[0], a.varies};
      return {Expr::make(ExprKind::neg, {a.expr}), a.varies};
    }
    case Op::sub: {
      Integer a = integer(kind, node.args[0]);
      Integer b = integer(kind, node.args[1]);
      return {Expr::make(ExprKind::sub, {a.expr, b.expr}), a.varies || b.varies};
    }
    case Op::div: {
      Integer a = integer(kind, node.args[0]);
      Integer b = integer(kind, node.args[1]);
      if (b.varies) fail_not_affine(id, "divides by index " + index_names(node.args[1]));
      ExprKind division = kind == IntegerKind::index ? ExprKind::exact_div : ExprKind::trunc_div;
      return {Expr::make(division, {a.expr, b.expr}), a.varies};
    }
    default:
      fail_not_integer(kind, id);
  }
}

// a + b + c and a * b * c are one n-ary node each, brackets or not.
Elaborator::Integer Elaborator::integer_chain(IntegerKind kind, SyntaxId id) {
  Op op = at(id).op;
  ExprKind chain = op == Op::add ? ExprKind::add : ExprKind::mul;
  std::vector<Expr> args;
  std::vector<SyntaxId> pending = {id};
  SyntaxId varying = -1;
  while (!pending.empty()) {
    SyntaxId next = pending.back();
    pending.pop_back();
    const Syntax& node = at(next);
    if (node.kind == SyntaxKind::operation && node.op == op) {
      pending.push_back(node.args[1]);
      pending.push_back(node.args[0]);
      continue;
    }
    Integer part = integer(kind, next);
    if (op == Op::mul && part.varies && varying >= 0) {
      fail_not_affine(
          id, "multiplies index " + index_names(varying) + " by index " + index_names(next));
    }
    if (part.varies) varying = next;
    // Two signs that cancelled may uncover a chain.
    bool merges = part.expr.kind() == chain;
    if (merges) args.insert(args.end(), part.expr.args().begin(), part.expr.args().end());
    if (!merges) args.push_back(std::move(part.expr));
  }
  return {Expr::make(chain, std::move(args)), varying >= 0};
}

Elaborator::Integer Elaborator::integer_call(IntegerKind kind, SyntaxId id) {
  const Syntax& node = at(id);
  bool known = node.text == "min" || node.text == "max";
  if (!known || kind == IntegerKind::index) fail_not_integer(kind, id);
  check_arity(node, 2, 2);
  Expr a = size_expression(node.args[0]);
  Expr b = size_expression(node.args[1]);
  return {Expr::make(node.text == "min" ? ExprKind::min : ExprKind::max, {a, b})};
}

// The index names below a node, quoted: "'i'" or "'i', 'j'".
std::string Elaborator::index_names(SyntaxId id) const {
  std::vector<std::string_view> found;
  std::vector<SyntaxId> pending = {id};
  while (!pending.empty()) {
    const Syntax& node = at(pending.back());
    pending.pop_back();
    bool lower = node.kind == SyntaxKind::name && node.text[0] >= 'a';
    if (lower && std::find(found.begin(), found.end(), node.text) == found.end()) {
      found.push_back(node.text);
    }
    if (found.size() == 8) break;
    pending.insert(pending.end(), node.args.rbegin(), node.args.rend());
  }
  std::string out;
  for (std::string_view name : found) {
    out += (out.empty() ? "'" : ", '") + std::string(name) + "'";
  }
  return out;
}

void Elaborator::fail_not_affine(SyntaxId id, const std::string& why) const {
  fail(Stage::parse, "linearity", at(id).span,
       "the index expression " + quoted(at(id).span) + " is not linear: it " + why,
       "an index may be multiplied or divided by integers and dimensions only");
}

void Elaborator::fail_not_integer(IntegerKind kind, SyntaxId id) const {
  const Syntax& node = at(id);
  std::string what = quoted(node.span);
  if (kind == IntegerKind::size) {
    fail(Stage::parse, "size", node.span, what + " cannot stand in a size",
         "sizes are made of integers and dimensions with + - * / min max");
  }
  std::string names = index_names(id);
  fail(Stage::parse, "linearity", node.span,
       "the index expression " + what + " is not linear" +
           (names.empty() ? "" : " in index " + names),
       node.kind == SyntaxKind::access
           ? "to read at positions that a tensor holds, use gather"
           : "indices are made of index names, integers and dimensions with + - * /");
}

}  // namespace tile
