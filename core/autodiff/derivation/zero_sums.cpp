// Proof. A mean m is a sum of x over n points, divided by n, so that the sum over the same points
// of x - m is n m - n m = 0; and the sum of c (x - m), where c is the same at all of them, is c
// times that. Statements between are read through: an elementwise one, and a contraction that has
// one point for each cell, are the values of their bodies.
#include "core/autodiff/derivation/zero_sums.h"

#include <algorithm>
#include <set>

#include "core/autodiff/derivation/cells.h"

namespace tile {
namespace {

constexpr int kDepth = 12;  // statements and operations that are read through

// A body's node with what its loads read.
struct Value {
  const Body* body = nullptr;
  NodeId node;
  std::function<std::optional<Element>(size_t slot)> read;

  const Node& get() const { return (*body)[node]; }
  Value arg(size_t k) const { return {body, get().args.at(k), read}; }
  bool is(Op op) const { return get().kind == NodeKind::operation && get().op == op; }
};

// A divisor: a number times expressions over sizes.
struct Count {
  int64_t number = 1;
  std::multiset<std::string> sizes;
  friend bool operator==(const Count&, const Count&) = default;
};

bool multiply(Count& count, const Expr& e) {
  if (e.is_constant()) {
    count.number *= e.value();
    return e.value() > 0 && count.number < (int64_t{1} << 40);
  }
  if (e.kind() != ExprKind::mul) {
    count.sizes.insert(to_string(e));
    return true;
  }
  return std::all_of(e.args().begin(), e.args().end(),
                     [&](const Expr& arg) { return multiply(count, arg); });
}

bool multiply(Count& count, const Value& v) {
  const Node& n = v.get();
  if (n.kind == NodeKind::size) return multiply(count, n.expr);
  if (n.kind == NodeKind::integer) return multiply(count, Expr(n.integer));
  if (n.kind == NodeKind::real) {
    auto whole = static_cast<int64_t>(n.real >= 1 && n.real < 1e12 ? n.real : 0);
    return static_cast<double>(whole) == n.real && multiply(count, Expr(whole));
  }
  if (v.is(Op::mul)) return multiply(count, v.arg(0)) && multiply(count, v.arg(1));
  return (v.is(Op::cast) || v.is(Op::cast_like)) && multiply(count, v.arg(0));
}

bool is_one(const Value& v) {
  const Node& n = v.get();
  return (n.kind == NodeKind::integer && n.integer == 1) ||
         (n.kind == NodeKind::real && n.real == 1);
}

// The dividend where v is x / n, or x times 1 / n; n multiplies the count.
std::optional<Value> dividend(const Value& v, Count& count) {
  if (v.is(Op::div)) {
    return multiply(count, v.arg(1)) ? std::optional(v.arg(0)) : std::nullopt;
  }
  for (size_t k = 0; k < 2 && v.is(Op::mul); ++k) {
    Value by = v.arg(k);
    if (by.is(Op::div) && is_one(by.arg(0)) && multiply(count, by.arg(1))) return v.arg(1 - k);
  }
  return std::nullopt;
}

class Prover {
 public:
  Prover(const Derivation& derivation, const std::map<std::string, Expr>& summed)
      : derivation_(derivation), summed_(summed) {}

  bool vanishes(const Value& v, int depth = kDepth) const {
    if (depth == 0) return false;
    const Node& n = v.get();
    if (n.kind == NodeKind::load) {
      std::optional<Value> definition = defined(v);
      return definition && vanishes(*definition, depth - 1);
    }
    if (n.kind != NodeKind::operation) return false;
    switch (n.op) {
      case Op::neg:
      case Op::ident:
      case Op::cast:
      case Op::cast_like:
        return is_float_cast(n) && vanishes(v.arg(0), depth - 1);
      case Op::mul:
        return (vanishes(v.arg(0), depth - 1) && is_same(v.arg(1), depth - 1)) ||
               (is_same(v.arg(0), depth - 1) && vanishes(v.arg(1), depth - 1));
      case Op::div:
        return vanishes(v.arg(0), depth - 1) && is_same(v.arg(1), depth - 1);
      case Op::sub:
        return is_mean(v.arg(1), v.arg(0)) || is_mean(v.arg(0), v.arg(1)) ||
               (vanishes(v.arg(0), depth - 1) && vanishes(v.arg(1), depth - 1));
      case Op::add:
        return vanishes(v.arg(0), depth - 1) && vanishes(v.arg(1), depth - 1);
      default:
        return false;
    }
  }

 private:
  static bool is_float_cast(const Node& n) { return n.op != Op::cast || is_float(n.type); }

  bool uses_summed(const Expr& e) const {
    return std::any_of(summed_.begin(), summed_.end(),
                       [&](const auto& one) { return uses_variable(e, one.first); });
  }
  bool is_summed(const Expr& e) const {
    return e.kind() == ExprKind::variable && summed_.contains(e.name());
  }

  // Whether the value is the same at all points of one sum.
  bool is_same(const Value& v, int depth) const {
    if (depth == 0) return false;
    const Node& n = v.get();
    switch (n.kind) {
      case NodeKind::integer:
      case NodeKind::real:
      case NodeKind::size:
        return true;
      case NodeKind::operation:
        for (size_t k = 0; k < n.args.size(); ++k) {
          if (!is_same(v.arg(k), depth - 1)) return false;
        }
        return true;
      case NodeKind::load: {
        std::optional<Element> element = v.read(n.slot);
        if (!element || !n.args.empty()) return false;
        bool varies = std::any_of(element->place.begin(), element->place.end(),
                                  [&](const Expr& e) { return uses_summed(e); });
        if (!varies) return true;
        std::optional<Value> definition = defined(v);
        return definition && is_same(*definition, depth - 1);
      }
      default:
        return false;
    }
  }

  const Statement* statement_of(TensorId id) const {
    for (const Statement& s : derivation_.program.statements) {
      if (s.result == id) return &s;
    }
    return nullptr;
  }

  // The value that a load's element was computed as.
  std::optional<Value> defined(const Value& load) const {
    std::optional<Element> element = load.read(load.get().slot);
    if (!element || !load.get().args.empty()) return std::nullopt;
    const Statement* s = statement_of(element->tensor);
    if (s == nullptr) return std::nullopt;
    if (const auto* e = std::get_if<Elementwise>(&s->what)) {
      auto read = [this, e, at = *element](size_t slot) {
        return operand_at(derivation_, e->operands[slot], at);
      };
      return Value{&e->body, e->body.results[0], read};
    }
    const auto* c = std::get_if<SymbolicContraction>(&s->what);
    if (c == nullptr || !is_map(*c)) return std::nullopt;
    return body_at(*c, *element);
  }
  // The body at the point of a cell, the other indices as they are.
  static Value body_at(const SymbolicContraction& c, const Element& cell) {
    std::map<std::string, Expr> places;
    for (size_t d = 0; d < c.out_index.size(); ++d) {
      if (c.out_index[d].kind() == ExprKind::variable) {
        places[c.out_index[d].name()] = cell.place[d];
      }
    }
    auto read = [&c, places](size_t slot) -> std::optional<Element> {
      const SymbolicAccess& access = c.accesses[slot];
      if (!reads_in_range(access)) return std::nullopt;
      Element element{access.tensor, {}};
      for (const Expr& e : access.index) element.place.push_back(substitute(e, places));
      return element;
    };
    return {&c.body, c.body.results[0], read};
  }
  bool is_map(const SymbolicContraction& c) const {
    bool indexed = std::any_of(c.body.nodes.begin(), c.body.nodes.end(),
                               [](const Node& n) { return n.kind == NodeKind::index; });
    return !indexed && c.components == 0 && has_single_points(c) && derivation_.whole_ranges(c);
  }

  // Whether m is the mean of the elements that x reads, over all that is summed.
  bool is_mean(Value m, const Value& x) const {
    if (x.get().kind != NodeKind::load || !x.get().args.empty()) return false;
    std::optional<Element> element = x.read(x.get().slot);
    if (!element) return false;
    Count divided, count;
    for (const auto& [name, extent] : summed_) {
      if (!multiply(count, extent)) return false;
    }
    for (int depth = 0; depth < kDepth; ++depth) {
      if (m.get().kind == NodeKind::load) {
        if (is_sum(m, *element, divided)) return divided == count;
        std::optional<Value> definition = defined(m);
        if (!definition) return false;
        m = *definition;
      } else {
        std::optional<Value> rest = dividend(m, divided);
        if (!rest) return false;
        m = *rest;
      }
    }
    return false;
  }

  // Whether the load is a cell that holds the sum of x over what is summed, or of x / n: then n
  // multiplies the count.
  bool is_sum(const Value& load, const Element& x, Count& count) const {
    std::optional<Element> cell = load.read(load.get().slot);
    if (!cell || !load.get().args.empty()) return false;
    const Statement* s = statement_of(cell->tensor);
    const auto* c = s == nullptr ? nullptr : std::get_if<SymbolicContraction>(&s->what);
    bool sums = c != nullptr && c->aggregation == Aggregation::sum && c->components == 0 &&
                c->accesses.size() == 1 && derivation_.whole_ranges(*c);
    if (!sums || c->accesses[0].tensor != x.tensor) return false;
    Value term = body_at(*c, *cell);
    Count inner = count;
    if (term.get().kind != NodeKind::load) {
      std::optional<Value> rest = dividend(term, inner);
      if (!rest || rest->get().kind != NodeKind::load) return false;
      term = *rest;
    }
    std::optional<Element> read = term.read(term.get().slot);
    if (!read || !reads_all(*c, *read, x)) return false;
    count = inner;
    return true;
  }
  // Whether the places that the sum reads are those of x where one is summed over, each by an index
  // of its own, and x's otherwise.
  bool reads_all(const SymbolicContraction& c, const Element& term, const Element& x) const {
    std::set<std::string> free(c.indices.begin(), c.indices.end()), met;
    for (const Expr& e : c.out_index) {
      if (e.kind() == ExprKind::variable) free.erase(e.name());
    }
    for (size_t d = 0; d < x.place.size(); ++d) {
      const Expr& place = term.place[d];
      if (place.kind() == ExprKind::variable && free.contains(place.name())) {
        if (!is_summed(x.place[d]) || !met.insert(x.place[d].name()).second) return false;
        free.erase(place.name());
      } else if (!(place == x.place[d]) || uses_summed(place)) {
        return false;
      }
    }
    return free.empty() && met.size() == summed_.size();
  }

  const Derivation& derivation_;
  const std::map<std::string, Expr>& summed_;
};

}  // namespace

std::optional<Element> operand_at(const Derivation& derivation, TensorId operand,
                                  const Element& cell) {
  const SymbolicShape &from = derivation.shape(operand), &to = derivation.shape(cell.tensor);
  if (!from.ranked || !to.ranked || from.dims.size() > to.dims.size()) return std::nullopt;
  size_t more = to.dims.size() - from.dims.size();
  Element element{operand, {}};
  for (size_t d = 0; d < from.dims.size(); ++d) {
    const std::optional<Expr>&a = from.dims[d], &b = to.dims[more + d];
    if (a && b && *a == *b) {
      element.place.push_back(cell.place[more + d]);
    } else if (a && a->is_constant(1)) {
      element.place.emplace_back(0);
    } else {
      return std::nullopt;
    }
  }
  return element;
}

bool sums_to_zero(const Derivation& derivation, const Body& body, NodeId root,
                  const SummedSpace& space) {
  if (space.summed.empty()) return false;
  return Prover(derivation, space.summed).vanishes({&body, root, space.read});
}

TensorId without_zero_sums(Derivation& derivation, const Body& body, NodeId root, size_t slot,
                           const SummedSpace& space) {
  std::optional<Element> adjoint = space.read(slot);
  if (!adjoint) return TensorId();
  std::vector<TensorId> kept;
  for (TensorId addend : derivation.addends(adjoint->tensor)) {
    SummedSpace of_addend = space;
    of_addend.read = [&](size_t other) {
      return other == slot ? Element{addend, adjoint->place} : space.read(other);
    };
    if (!sums_to_zero(derivation, body, root, of_addend)) kept.push_back(addend);
  }
  return derivation.sum_of_addends(adjoint->tensor, kept);
}

}  // namespace tile
