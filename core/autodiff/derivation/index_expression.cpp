#include "core/autodiff/derivation/index_expression.h"

#include <algorithm>
#include <set>

#include "core/autodiff/derivation/boundary_cases.h"
#include "core/simplify/simplify.h"

namespace tile {
namespace {

// Elements narrower than 2^29 along each dimension keep i32 sums of an index and such constants
// from wrapping, as MFG's own index arithmetic supposes.
constexpr int64_t kLargestConstant = int64_t{1} << 20;
constexpr int64_t kLargestFactor = 4;

bool is_wide(const Node& n) { return n.type == DType::i32 || n.type == DType::i64; }

bool by_value(const SymbolicAccess& a) {
  return std::any_of(a.values.begin(), a.values.end(), [](int v) { return v >= 0; });
}

// The access with index expressions in place of values; nullopt: one of them is no expression.
std::optional<SymbolicAccess> expressed(const SymbolicAccess& access, const Body& body,
                                        const Node& load, const IndexExpressions& expressions,
                                        const Ranges& ranges) {
  SymbolicAccess result = access;
  for (size_t d = 0; d < access.values.size(); ++d) {
    if (access.values[d] < 0) continue;
    std::optional<Expr> e =
        expressions.value(body, load.args[static_cast<size_t>(access.values[d])]);
    if (!e) return std::nullopt;
    result.index[d] = simplify(*e, ranges);
  }
  result.values.clear();
  return result;
}

int position_of(std::vector<SymbolicAccess>& accesses, SymbolicAccess access) {
  auto same = [&](const SymbolicAccess& other) {
    return other.tensor == access.tensor && other.index == access.index &&
           other.values == access.values && other.boundary == access.boundary;
  };
  auto found = std::find_if(accesses.begin(), accesses.end(), same);
  if (found == accesses.end()) found = accesses.insert(accesses.end(), std::move(access));
  return static_cast<int>(found - accesses.begin());
}

}  // namespace

void drop_unread_values(SymbolicContraction& c) {
  std::vector<bool> read(c.accesses.size());
  visit_nodes(c.body, [&](const Node& n) {
    if (n.kind == NodeKind::load) read[n.slot] = true;
  });
  std::vector<int> to(c.accesses.size(), -1);
  std::vector<SymbolicAccess> kept;
  for (size_t i = 0; i < to.size(); ++i) {
    if (!read[i] && by_value(c.accesses[i])) continue;
    to[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(c.accesses[i]));
  }
  change_nodes(c.body, [&](Node& n) {
    if (n.kind == NodeKind::load) n.slot = to[n.slot];
  });
  c.accesses = std::move(kept);
}

bool IndexExpressions::is_index_free(const Expr& e) const {
  const std::vector<std::string>& names = contraction_.indices;
  return std::none_of(names.begin(), names.end(),
                      [&](const std::string& name) { return uses_variable(e, name); });
}

std::optional<Expr> IndexExpressions::value(const Body& body, NodeId id) const {
  const Node& n = body[id];
  switch (n.kind) {
    case NodeKind::integer:
      return std::abs(n.integer) <= kLargestConstant ? std::optional(Expr(n.integer))
                                                     : std::nullopt;
    case NodeKind::size:
      return n.expr;
    case NodeKind::index:
      return Expr::variable(contraction_.indices[n.slot]);
    case NodeKind::load:
      return parameter(n);
    case NodeKind::operation:
      return is_wide(n) ? operation(body, n) : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<Expr> IndexExpressions::parameter(const Node& load) const {
  TensorId id = contraction_.accesses[load.slot].tensor;
  const Tensor& t = program_.tensors[id];
  bool scalar = t.parameter && t.dims.empty() && is_integer(t.parameter->type);
  return scalar && is_wide(load) ? std::optional(Expr::variable(t.name)) : std::nullopt;
}

// A comparison of two expressions that decides between two others.
std::optional<Expr> IndexExpressions::choice(const Body& body, const Node& n) const {
  const Node& test = body[n.args[0]];
  bool compares = test.kind == NodeKind::operation && test.op == Op::lt;
  if (!compares) return std::nullopt;
  std::optional<Expr> a = value(body, test.args[0]), b = value(body, test.args[1]);
  std::optional<Expr> yes = value(body, n.args[1]), no = value(body, n.args[2]);
  if (!a || !b || !yes || !no) return std::nullopt;
  return select(less(*a, *b), *yes, *no);
}

std::optional<Expr> IndexExpressions::operation(const Body& body, const Node& n) const {
  if (n.op == Op::select) return choice(body, n);
  std::vector<Expr> args;
  for (NodeId arg : n.args) {
    std::optional<Expr> e = value(body, arg);
    if (!e) return std::nullopt;
    args.push_back(*e);
  }
  switch (n.op) {
    case Op::cast:
      return args[0];
    case Op::neg:
      return -args[0];
    case Op::add:
      return args[0] + args[1];
    case Op::sub:
      return args[0] - args[1];
    case Op::min:
      return min(args[0], args[1]);
    case Op::max:
      return max(args[0], args[1]);
    case Op::mul: {
      bool small = std::any_of(args.begin(), args.end(), [](const Expr& e) {
        return e.is_constant() && std::abs(e.value()) <= kLargestFactor;
      });
      return small || n.type == DType::i64 ? std::optional(args[0] * args[1]) : std::nullopt;
    }
    case Op::div:
    case Op::mod: {
      bool positive =
          constant_range(args[1], {}).lo.value_or(0) > 0 || body[n.args[1]].kind == NodeKind::size;
      if (!positive) return std::nullopt;
      return n.op == Op::div ? trunc_div(args[0], args[1]) : trunc_mod(args[0], args[1]);
    }
    default:
      return std::nullopt;
  }
}

// An index with a bound of its own.
std::optional<Expr> IndexExpressions::last_of_index(size_t slot) const {
  const std::string& name = contraction_.indices[slot];
  auto is_it = [&](const Expr& e) { return e.kind() == ExprKind::variable && e.name() == name; };
  for (size_t d = 0; d < contraction_.out_index.size(); ++d) {
    if (is_it(contraction_.out_index[d])) return contraction_.out_size[d] - 1;
  }
  for (const SymbolicConstraint& k : contraction_.constraints) {
    if (is_it(k.form) && k.bound != Expr(kFar)) return k.bound - 1;
  }
  return std::nullopt;
}

std::optional<Expr> IndexExpressions::bound(const Body& body, NodeId id, bool upper) const {
  std::optional<Expr> known = value(body, id);
  if (known && is_index_free(*known)) return known;
  const Node& n = body[id];
  switch (n.kind) {
    case NodeKind::index:
      return upper ? last_of_index(n.slot) : Expr(0);
    case NodeKind::load:
      if (n.type == DType::u8) return Expr(upper ? 255 : 0);
      return std::nullopt;
    case NodeKind::operation:
      return is_wide(n) ? bound_of_operation(body, n, upper) : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<Expr> IndexExpressions::bound_of_operation(const Body& body, const Node& n,
                                                         bool upper) const {
  auto of = [&](size_t arg, bool side) { return bound(body, n.args[arg], side); };
  switch (n.op) {
    case Op::cast: {
      bool integral = is_integer(body[n.args[0]].type);
      return integral ? of(0, upper) : std::nullopt;
    }
    case Op::neg: {
      std::optional<Expr> a = of(0, !upper);
      return a ? std::optional(-*a) : std::nullopt;
    }
    case Op::add:
    case Op::sub: {
      bool adds = n.op == Op::add;
      std::optional<Expr> a = of(0, upper), b = of(1, adds ? upper : !upper);
      if (!a || !b) return std::nullopt;
      return adds ? *a + *b : *a - *b;
    }
    case Op::min:
    case Op::max: {
      bool takes_either = (n.op == Op::min) == upper;  // one operand's bound is one of the result
      std::optional<Expr> a = of(0, upper), b = of(1, upper);
      if (a && b) return n.op == Op::min ? min(*a, *b) : max(*a, *b);
      if (!takes_either) return std::nullopt;
      return a ? a : b;
    }
    case Op::mul: {
      const Node& by = body[n.args[1]];
      if (by.kind != NodeKind::integer || by.integer < 0) return std::nullopt;
      std::optional<Expr> a = of(0, upper);
      return a ? std::optional(*a * Expr(by.integer)) : std::nullopt;
    }
    case Op::mod: {  // of a positive number: its sign is that of the dividend
      const Node& by = body[n.args[1]];
      if (by.kind != NodeKind::integer || by.integer < 1) return std::nullopt;
      std::optional<Expr> a = of(0, false);
      bool positive = a && constant_range(*a, {}).lo.value_or(-1) >= 0;
      if (!upper) return Expr(positive ? 0 : 1 - by.integer);
      std::optional<Expr> most = positive ? of(0, true) : std::nullopt;
      return most ? min(*most, Expr(by.integer - 1)) : Expr(by.integer - 1);
    }
    case Op::select: {
      std::optional<Expr> a = of(1, upper), b = of(2, upper);
      if (!a || !b) return std::nullopt;
      return upper ? max(*a, *b) : min(*a, *b);
    }
    default:
      return std::nullopt;
  }
}

void express_indices(const Program& program, SymbolicContraction& c) {
  if (std::none_of(c.accesses.begin(), c.accesses.end(), by_value)) return;
  Ranges ranges = known_ranges(program, c);
  std::vector<SymbolicAccess> accesses = c.accesses;
  IndexExpressions expressions(program, c);
  std::set<int> seen;  // accesses that have a load
  Body body = rewritten(c.body, [&](Body& to, const Node& node) -> NodeId {
    if (node.kind != NodeKind::load) return NodeId();
    const SymbolicAccess& access = c.accesses[node.slot];
    if (!by_value(access)) return NodeId();
    auto whole = expressed(access, to, node, expressions, ranges);
    if (!whole) {
      if (seen.insert(node.slot).second) return NodeId();
      Node own = node;
      own.slot = accesses.size();
      accesses.push_back(access);
      return to.add(std::move(own));
    }
    return to.load(position_of(accesses, std::move(*whole)), node.type, node.span);
  });
  c.accesses = std::move(accesses);
  c.body = tidied(body);
  drop_unread_values(c);
}

}  // namespace tile
