// Elements whose integers all fit 8 or 16 bits are computed in such lanes, of which a vector has
// four times or twice as many.
#include <algorithm>

#include "core/ir/analysis/integer_range.h"
#include "core/ir/scalar.h"
#include "core/passes/optimize/optimize.h"

namespace tile {
namespace {

using Known = std::optional<IntegerRange>;
constexpr int kWide = 32;

IntegerRange united(const IntegerRange& a, const IntegerRange& b) {
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}

// Operations whose exact result is the same in every type that holds the operands and the result.
bool fits_any_type(Op op) {
  switch (op) {
    case Op::ident:
    case Op::cast:
    case Op::add:
    case Op::sub:
    case Op::neg:
    case Op::mul:
    case Op::min:
    case Op::max:
    case Op::abs:
    case Op::select:
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
      return true;
    default:
      return info(op).rule == TypeRule::comparison || info(op).rule == TypeRule::logical;
  }
}

class Narrower {
 public:
  explicit Narrower(const Piece& piece) : body_(piece.body), known_(integer_ranges(piece)) {}

  // The body with results of type `stored`, in narrow lanes; nullopt: some value needs more.
  std::optional<Body> run(DType stored) {
    lanes_ = bit_width(stored);
    for (NodeId i : body_.nodes.ids()) {
      int bits = bits_of(i);
      if (bits >= kWide) return std::nullopt;
      lanes_ = std::max(lanes_, bits);
    }
    for (NodeId i : body_.nodes.ids()) at_.push_back(copy(i));
    for (NodeId id : body_.results) {
      bool literal = body_[id].kind == NodeKind::integer;
      NodeId result = literal ? converted(body_[id], stored) : after_.cast(at(id), stored);
      after_.results.push_back(result);
    }
    return tidied(after_);
  }

 private:
  const Known& known(NodeId id) const { return known_[id]; }
  NodeId at(NodeId id) const { return at_[id]; }
  static bool is_comparison(const Node& n) { return info(n.op).rule == TypeRule::comparison; }

  // What the node's operation needs to hold: its operands, and the result unless that is a bool.
  Known held(NodeId id) const {
    const Node& n = body_[id];
    Known all = is_comparison(n) ? std::nullopt : known(id);
    for (size_t a = n.op == Op::select ? 1 : 0; a < n.args.size(); ++a) {
      const Known& operand = known(n.args[a]);
      if (!operand) return std::nullopt;
      all = all ? united(*all, *operand) : *operand;
    }
    return all;
  }

  // Bits of the lanes that a node's value needs; kWide: more than narrow lanes have.
  int bits_of(NodeId id) const {
    const Node& n = body_[id];
    bool literal = n.kind == NodeKind::integer;
    if (literal) return 8;  // as wide as what uses it
    if (n.kind == NodeKind::load) {
      bool narrow = is_integer(n.type) && bit_width(n.type) < kWide && n.args.empty();
      return narrow ? bit_width(n.type) : kWide;
    }
    if (n.kind != NodeKind::operation || !fits_any_type(n.op)) return kWide;
    if (info(n.op).rule == TypeRule::logical) return 8;
    Known all = held(id);
    if (!all) return kWide;
    std::optional<DType> type = narrowest_type(*all, kWide);
    return type ? bit_width(*type) : kWide;
  }

  // The node's value at the copy, perhaps in another type.
  NodeId copy(NodeId id) {
    Node n = body_[id];
    if (n.kind == NodeKind::integer) return NodeId();  // where it is used, in the type of its use
    if (n.kind == NodeKind::load) return after_.add(std::move(n));
    if (n.op == Op::cast || n.op == Op::ident) return copied_cast(n);
    bool logical = info(n.op).rule == TypeRule::logical;
    DType type = logical ? n.type : *narrowest_type(*held(id), kWide, lanes_);
    for (size_t a = 0; a < n.args.size(); ++a) {
      bool condition = logical || (n.op == Op::select && a == 0);
      n.args[a] = condition ? truth(n.args[a]) : operand(n.args[a], type);
    }
    if (!is_comparison(n)) n.type = type;
    return after_.add(std::move(n));
  }

  // Where the type holds the value, a cast changes nothing.
  NodeId copied_cast(const Node& n) {
    if (body_[n.args[0]].kind == NodeKind::integer) return converted(body_[n.args[0]], n.type);
    const Known& value = known(n.args[0]);
    IntegerRange all = range_of_type(n.type);
    bool same = n.type != DType::bool_ && value->lo >= all.lo && value->hi <= all.hi;
    return same ? at(n.args[0]) : after_.cast(at(n.args[0]), n.type, n.span);
  }
  NodeId converted(const Node& literal, DType type) {
    return after_.integer(integer_scalar(literal.integer, type).i, type, literal.span);
  }

  // The value in a type that holds it.
  NodeId operand(NodeId id, DType type) {
    return body_[id].kind == NodeKind::integer ? converted(body_[id], type)
                                               : after_.cast(at(id), type);
  }
  // The value where it is only compared with zero.
  NodeId truth(NodeId id) {
    return body_[id].kind == NodeKind::integer ? converted(body_[id], DType::bool_) : at(id);
  }

  const Body& body_;
  IdVector<NodeId, Known> known_;
  IdVector<NodeId, NodeId> at_;
  Body after_;
  int lanes_ = 8;
};

// The type of every result's tensor, if it is one that narrow lanes have.
std::optional<DType> stored_type(const BoundProgram& program, const Contraction& c) {
  std::optional<DType> type;
  for (TensorId id : c.outputs) {
    DType t = program.tensors[id].type;
    if (!is_integer(t) || bit_width(t) >= kWide || (type && *type != t)) return std::nullopt;
    type = t;
  }
  return type;
}

}  // namespace

void narrow_bodies(BoundProgram& program, const Target& target) {
  if (is_gpu(target)) return;  // its lanes are registers of 32 bits
  for (BoundStatement& statement : program.statements) {
    Contraction* c = std::get_if<Contraction>(&statement);
    if (c == nullptr || !c->normalized || c->pieces.size() != 1) continue;
    Piece& piece = c->pieces[0];
    std::optional<DType> stored = stored_type(program, *c);
    if (!stored || piece.parallel_dims != piece.iterators.size()) continue;
    std::optional<Body> narrow = Narrower(piece).run(*stored);
    if (!narrow) continue;
    piece.body = std::move(*narrow);
    c->accumulator = *stored;
  }
}

}  // namespace tile
