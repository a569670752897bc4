#include "core/passes/normalize/fold_constants.h"

#include <algorithm>

#include "core/ir/analysis/evaluate_body.h"
#include "core/passes/normalize/normalize.h"
#include "core/support/checked.h"

namespace tile {
namespace {

bool is_literal(const Node& node) {
  return node.kind == NodeKind::integer || node.kind == NodeKind::real;
}

// Operations that every backend computes alike, bit by bit.
bool is_exact(Op op) {
  switch (info(op).rule) {
    case TypeRule::comparison:
    case TypeRule::integral:
    case TypeRule::logical:
    case TypeRule::selection:
    case TypeRule::casting:
    case TypeRule::identity:
    case TypeRule::predicate:
      return true;
    case TypeRule::arithmetic:
      return op != Op::mod && op != Op::fma;
    default:
      return false;
  }
}

Scalar value_of(const Node& literal) {
  return literal.kind == NodeKind::real ? real_scalar(literal.real, literal.type)
                                        : integer_scalar(literal.integer, literal.type);
}
NodeId add_literal(Body& body, const Scalar& value, Span span) {
  return is_float(value.type) ? body.real(value.f, value.type, span)
                              : body.integer(value.i, value.type, span);
}

// The position inside [0, size) that a boundary rule gives; -1: none.
int64_t bounded(int64_t at, int64_t size, Boundary boundary) {
  if (at >= 0 && at < size) return at;
  if (size < 1) return -1;
  switch (boundary) {
    case Boundary::clamp:
      return at < 0 ? 0 : size - 1;
    case Boundary::wrap:
      return floor_mod(at, size);
    case Boundary::mirror:
      at = floor_mod(at, checked_mul(2, size));
      return std::min(at, 2 * size - 1 - at);
    default:
      return -1;
  }
}

class Folder {
 public:
  Folder(const BoundProgram& program, const Piece& piece) : program_(program), piece_(piece) {}

  NodeId leaf(Body& body, const Node& node) const {
    if (node.kind == NodeKind::load) return element(body, node);
    if (node.kind == NodeKind::fold) return fold(body, node);
    if (node.kind != NodeKind::operation) return NodeId();
    if (node.op == Op::select && is_literal(body[node.args[0]])) {
      return node.args[is_true(value_of(body[node.args[0]])) ? 1 : 2];
    }
    if (node.op == Op::pow) return power(body, node);
    if (!is_exact(node.op)) return neutral(body, node);
    std::vector<Scalar> operands;
    for (NodeId arg : node.args) {
      if (!is_literal(body[arg])) return neutral(body, node);
      operands.push_back(value_of(body[arg]));
    }
    Scalar value = node.op == Op::cast ? convert(operands[0], node.type)
                                       : evaluate(node.op, node.type, operands);
    return add_literal(body, value, node.span);
  }

 private:
  // A literal that a loop captures is a literal inside it.
  NodeId fold(Body& body, const Node& node) const {
    size_t own = node.slot + 1;
    auto captured = [&](size_t slot) { return body[node.args[slot + 1]]; };
    bool any = false;
    for (size_t a = own + 1; a < node.args.size(); ++a) any = any || is_literal(body[node.args[a]]);
    if (!any) return NodeId();
    const Body* region = nullptr;  // the copy; loops inside have arguments of their own
    Node copy = node;
    copy.region = std::make_shared<const Body>(
        rewritten(*node.region, [&](Body& to, const Node& n) -> NodeId {
          if (region == nullptr) region = &to;
          bool given = &to == region && n.kind == NodeKind::argument && n.slot >= own &&
                       is_literal(captured(n.slot));
          return given ? to.add(captured(n.slot)) : leaf(to, n);
        }));
    return body.add(std::move(copy));
  }

  static bool is_number(const Node& node, int64_t value) {
    return node.kind == NodeKind::integer && node.integer == value;
  }
  // x + 0, x - 0, x * 1 and x / 1 of integers; x * 1 of reals.
  static NodeId neutral(const Body& body, const Node& node) {
    if (node.args.size() != 2) return NodeId();
    const Node &a = body[node.args[0]], &b = body[node.args[1]];
    bool sums = node.op == Op::add || node.op == Op::sub;
    bool products = node.op == Op::mul || node.op == Op::div;
    if (is_integer(node.type)) {
      if ((sums && is_number(b, 0)) || (products && is_number(b, 1))) return node.args[0];
      if (node.op == Op::add && is_number(a, 0)) return node.args[1];
      if (node.op == Op::mul && is_number(a, 1)) return node.args[1];
    }
    if (products && b.kind == NodeKind::real && b.real == 1) return node.args[0];
    if (node.op == Op::mul && a.kind == NodeKind::real && a.real == 1) return node.args[1];
    return NodeId();
  }

  // Powers of small whole exponents as products: of a square nothing is lost, of higher ones less
  // than two units in the last place, and special values are those of `pow`. A reciprocal's square
  // could overflow where the result does not.
  static NodeId power(Body& body, const Node& node) {
    NodeId x = node.args[0];
    const Node& exponent = body[node.args[1]];
    if (!is_literal(exponent) || body[x].type != node.type) return NodeId();
    double y =
        exponent.kind == NodeKind::real ? exponent.real : static_cast<double>(exponent.integer);
    auto product = [&](NodeId a, NodeId b) {
      return body.operation(Op::mul, {a, b}, node.type, node.span);
    };
    if (y == 0) return body.real(1, node.type, node.span);
    if (y == 1) return x;
    if (y == -1) {
      return body.operation(Op::div, {body.real(1, node.type, node.span), x}, node.type, node.span);
    }
    if (y != 2 && y != 3 && y != 4) return NodeId();
    NodeId square = product(x, x);
    if (y == 2) return square;
    return product(square, y == 3 ? x : square);
  }

  // An element of a constant tensor at a constant place.
  NodeId element(Body& body, const Node& node) const {
    const Access& access = piece_.loads[node.slot];
    const BoundTensor& tensor = program_.tensors[access.tensor];
    if (!tensor.constant) return NodeId();
    int64_t position = 0;
    for (size_t d = 0; d < access.index.size(); ++d) {
      std::optional<int64_t> at = place(body, node, access.index[d]);
      if (!at) return NodeId();
      int64_t inside = bounded(*at, tensor.shape[d], access.index[d].boundary);
      if (inside < 0) return NodeId();
      position = position * tensor.shape[d] + inside;
    }
    size_t offset = static_cast<size_t>(position) * byte_size(tensor.type);
    return add_literal(body, load_element(&(*tensor.constant)[offset], tensor.type), node.span);
  }

  static std::optional<int64_t> place(const Body& body, const Node& load, const Index& index) {
    if (index.value >= 0) {
      const Node& value = body[load.args[static_cast<size_t>(index.value)]];
      return value.kind == NodeKind::integer ? std::optional(value.integer) : std::nullopt;
    }
    bool fixed = index.affine.is_constant() && index.affine.constant.is_integer();
    return fixed ? std::optional(index.affine.constant.num()) : std::nullopt;
  }

  const BoundProgram& program_;
  const Piece& piece_;
};

}  // namespace

Body with_constants_folded(const BoundProgram& program, const Piece& piece) {
  Folder folder(program, piece);
  return tidied(
      rewritten(piece.body, [&](Body& body, const Node& node) { return folder.leaf(body, node); }));
}

void fold_constants(BoundProgram& program, const Target&) {
  for (BoundStatement& statement : program.statements) {
    Contraction* c = std::get_if<Contraction>(&statement);
    if (c == nullptr) continue;
    for (Piece& piece : c->pieces) piece.body = with_constants_folded(program, piece);
  }
}

}  // namespace tile
