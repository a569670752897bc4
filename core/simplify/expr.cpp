#include "core/simplify/expr.h"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

#include "core/support/checked.h"
#include "core/support/control.h"
#include "core/support/diagnostic.h"

namespace tile {
namespace {

// Small constants are shared: numeric expressions are full of them.
constexpr int64_t kSmallest = -16, kLargest = 256;

std::shared_ptr<const ExprNode> constant_node(int64_t value) {
  ExprNode node;
  node.value = value;
  return std::make_shared<const ExprNode>(std::move(node));
}

const std::shared_ptr<const ExprNode>& shared_constant(int64_t value) {
  static const auto nodes = [] {
    std::array<std::shared_ptr<const ExprNode>, kLargest - kSmallest + 1> all;
    for (int64_t v = kSmallest; v <= kLargest; ++v) all[v - kSmallest] = constant_node(v);
    return all;
  }();
  return nodes[value - kSmallest];
}

// a op b for an associative operator, extending `a` when it is such a node already, so that
// x + y + z is one node and x + (y + z) keeps its parentheses.
Expr append(ExprKind kind, const Expr& a, const Expr& b) {
  std::vector<Expr> args;
  if (a.kind() == kind) {
    args.reserve(a.args().size() + 1);
    args = a.args();
  } else {
    args.push_back(a);
  }
  args.push_back(b);
  return Expr::make(kind, std::move(args));
}

using Fold = int64_t (*)(int64_t, int64_t);

// Divisions: constants fold unless the divisor is 0, x / 1 is x.
Expr divide(ExprKind kind, Fold fold, const Expr& a, const Expr& b) {
  if (b.is_constant(1) && (kind == ExprKind::trunc_div || kind == ExprKind::floor_div)) return a;
  if (a.is_constant() && b.is_constant() && b.value() != 0) return fold(a.value(), b.value());
  return Expr::make(kind, {a, b});
}

}  // namespace

Expr::Expr(int64_t value)
    : node_(value >= kSmallest && value <= kLargest ? shared_constant(value)
                                                    : constant_node(value)) {}

Expr Expr::variable(std::string name) {
  ExprNode node;
  node.kind = ExprKind::variable;
  node.name = std::move(name);
  return Expr(std::make_shared<const ExprNode>(std::move(node)));
}

Expr Expr::make(ExprKind kind, std::vector<Expr> args) {
  checkpoint();
  ExprNode node;
  node.kind = kind;
  node.args = std::move(args);
  return Expr(std::make_shared<const ExprNode>(std::move(node)));
}

bool operator==(const Expr& a, const Expr& b) {
  if (a.node_ == b.node_) return true;
  const ExprNode& x = *a.node_;
  const ExprNode& y = *b.node_;
  return x.kind == y.kind && x.value == y.value && x.name == y.name && x.args == y.args;
}

Expr operator+(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return checked_add(a.value(), b.value());
  if (a.is_constant(0)) return b;
  if (b.is_constant(0)) return a;
  return append(ExprKind::add, a, b);
}

Expr operator-(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return checked_sub(a.value(), b.value());
  if (a.is_constant(0)) return -b;
  if (b.is_constant(0)) return a;
  return Expr::make(ExprKind::sub, {a, b});
}

Expr operator*(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return checked_mul(a.value(), b.value());
  if (a.is_constant(1)) return b;
  if (b.is_constant(1)) return a;
  return append(ExprKind::mul, a, b);
}

Expr operator-(const Expr& a) {
  if (a.is_constant()) return checked_neg(a.value());
  return Expr::make(ExprKind::neg, {a});
}

Expr exact_div(const Expr& a, const Expr& b) {
  if (b.is_constant(1)) return a;
  if (a.is_constant() && b.is_constant() && b.value() != 0 &&
      trunc_mod(a.value(), b.value()) == 0) {
    return trunc_div(a.value(), b.value());
  }
  return Expr::make(ExprKind::exact_div, {a, b});
}

Expr trunc_div(const Expr& a, const Expr& b) {
  return divide(ExprKind::trunc_div, static_cast<Fold>(trunc_div), a, b);
}
Expr trunc_mod(const Expr& a, const Expr& b) {
  return divide(ExprKind::trunc_mod, static_cast<Fold>(trunc_mod), a, b);
}
Expr floor_div(const Expr& a, const Expr& b) {
  return divide(ExprKind::floor_div, static_cast<Fold>(floor_div), a, b);
}
Expr floor_mod(const Expr& a, const Expr& b) {
  return divide(ExprKind::floor_mod, static_cast<Fold>(floor_mod), a, b);
}

Expr min(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return std::min(a.value(), b.value());
  return Expr::make(ExprKind::min, {a, b});
}
Expr max(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return std::max(a.value(), b.value());
  return Expr::make(ExprKind::max, {a, b});
}
Expr less(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return int64_t{a.value() < b.value()};
  return Expr::make(ExprKind::less, {a, b});
}
Expr equal(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return int64_t{a.value() == b.value()};
  return Expr::make(ExprKind::equal, {a, b});
}
Expr select(const Expr& condition, const Expr& a, const Expr& b) {
  if (condition.is_constant()) return condition.value() != 0 ? a : b;
  return Expr::make(ExprKind::select, {condition, a, b});
}

Expr build(ExprKind kind, const std::vector<Expr>& args) {
  using Binary = Expr (*)(const Expr&, const Expr&);
  auto fold = [&](Binary op) {
    Expr r = args[0];
    for (size_t i = 1; i < args.size(); ++i) r = op(r, args[i]);
    return r;
  };
  switch (kind) {
    case ExprKind::constant:
    case ExprKind::variable:
      break;
    case ExprKind::add:
      return fold(operator+);
    case ExprKind::sub:
      return args[0] - args[1];
    case ExprKind::mul:
      return fold(operator*);
    case ExprKind::neg:
      return -args[0];
    case ExprKind::exact_div:
      return exact_div(args[0], args[1]);
    case ExprKind::trunc_div:
      return trunc_div(args[0], args[1]);
    case ExprKind::trunc_mod:
      return trunc_mod(args[0], args[1]);
    case ExprKind::floor_div:
      return floor_div(args[0], args[1]);
    case ExprKind::floor_mod:
      return floor_mod(args[0], args[1]);
    case ExprKind::min:
      return fold(static_cast<Binary>(min));
    case ExprKind::max:
      return fold(static_cast<Binary>(max));
    case ExprKind::less:
      return less(args[0], args[1]);
    case ExprKind::equal:
      return equal(args[0], args[1]);
    case ExprKind::select:
      return select(args[0], args[1], args[2]);
  }
  throw InternalError("build: an expression without arguments");
}

Expr substitute(const Expr& e, const std::map<std::string, Expr>& replacement) {
  if (e.kind() == ExprKind::variable) {
    auto found = replacement.find(e.name());
    return found == replacement.end() ? e : found->second;
  }
  bool changed = false;
  std::vector<Expr> args;
  args.reserve(e.args().size());
  for (const Expr& arg : e.args()) {
    args.push_back(substitute(arg, replacement));
    changed = changed || args.back().node() != arg.node();
  }
  return changed ? build(e.kind(), args) : e;
}

namespace {

void collect(const Expr& e, std::unordered_set<const ExprNode*>& visited,
             std::vector<std::string>& names) {
  if (e.kind() == ExprKind::variable) {
    if (std::find(names.begin(), names.end(), e.name()) == names.end()) names.push_back(e.name());
    return;
  }
  if (e.args().empty() || !visited.insert(e.node()).second) return;
  for (const Expr& arg : e.args()) collect(arg, visited, names);
}

}  // namespace

void collect_variables(const Expr& e, std::vector<std::string>& names) {
  std::unordered_set<const ExprNode*> visited;
  collect(e, visited, names);
}

bool uses_variable(const Expr& e, std::string_view name) {
  if (e.kind() == ExprKind::variable) return e.name() == name;
  return std::any_of(e.args().begin(), e.args().end(),
                     [&](const Expr& arg) { return uses_variable(arg, name); });
}

}  // namespace tile
