// Text of expressions, with the parentheses that parsing needs to give the same tree and no others.
#include "core/simplify/expr.h"

namespace tile {
namespace {

enum Level { sum_level, product_level, unary_level };

void print(const Expr& e, Level context, std::string& out);

// The first operand of a left-associative operator may be an operation of the same level, unless it
// is the same n-ary node, which parsing would merge.
void print_operands(const Expr& e, std::string_view op, Level level, std::string& out) {
  for (size_t i = 0; i < e.args().size(); ++i) {
    if (i > 0) out += op;
    bool merges = i == 0 && e.args()[0].kind() == e.kind() &&
                  (e.kind() == ExprKind::add || e.kind() == ExprKind::mul);
    bool first = i == 0 && !merges;
    print(e.args()[i], first ? level : Level(level + 1), out);
  }
}

void print_infix(const Expr& e, std::string_view op, Level level, Level context, std::string& out) {
  bool parenthesised = context > level;
  if (parenthesised) out += '(';
  print_operands(e, op, level, out);
  if (parenthesised) out += ')';
}

void print_call(const Expr& e, std::string_view name, std::string& out) {
  out += name;
  out += '(';
  for (size_t i = 0; i < e.args().size(); ++i) {
    if (i > 0) out += ", ";
    print(e.args()[i], sum_level, out);
  }
  out += ')';
}

void print_parenthesised(const Expr& e, std::string_view first, std::string_view second,
                         std::string& out) {
  out += '(';
  print(e.args()[0], sum_level, out);
  out += first;
  print(e.args()[1], sum_level, out);
  out += second;
  if (e.kind() == ExprKind::select) print(e.args()[2], sum_level, out);
  out += ')';
}

void print(const Expr& e, Level context, std::string& out) {
  switch (e.kind()) {
    case ExprKind::constant:
      out += std::to_string(e.value());
      return;
    case ExprKind::variable:
      out += e.name();
      return;
    case ExprKind::add:
      return print_infix(e, " + ", sum_level, context, out);
    case ExprKind::sub:
      return print_infix(e, " - ", sum_level, context, out);
    case ExprKind::mul:
      return print_infix(e, "*", product_level, context, out);
    case ExprKind::exact_div:
    case ExprKind::trunc_div:
      return print_infix(e, " / ", product_level, context, out);
    case ExprKind::trunc_mod:
      return print_infix(e, " % ", product_level, context, out);
    case ExprKind::neg: {
      // A constant after the sign would be read as one negative number.
      bool constant = e.args()[0].is_constant() || e.args()[0].kind() == ExprKind::neg;
      out += constant ? "-(" : "-";
      print(e.args()[0], unary_level, out);
      if (constant) out += ')';
      return;
    }
    case ExprKind::floor_div:
      return print_call(e, "floordiv", out);
    case ExprKind::floor_mod:
      return print_call(e, "mod", out);
    case ExprKind::min:
      return print_call(e, "min", out);
    case ExprKind::max:
      return print_call(e, "max", out);
    case ExprKind::less:
      return print_parenthesised(e, " < ", "", out);
    case ExprKind::equal:
      return print_parenthesised(e, " == ", "", out);
    case ExprKind::select:
      return print_parenthesised(e, " ? ", " : ", out);
  }
}

}  // namespace

std::string to_string(const Expr& e) {
  std::string out;
  print(e, sum_level, out);
  return out;
}

}  // namespace tile
