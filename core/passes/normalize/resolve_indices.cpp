// Indices that are values become affine forms, conditions that the ranges decide become constants,
// and boundary rules that never act are dropped.
#include <algorithm>

#include "core/passes/normalize/index_forms.h"
#include "core/passes/normalize/normalize.h"
#include "core/passes/normalize/substitution.h"

namespace tile {
namespace {

class Resolver {
 public:
  Resolver(const BoundProgram& program, Piece& piece)
      : program_(program), piece_(piece), forms_(piece) {}

  void run() {
    loads_ = piece_.loads;
    Body body = rewritten(piece_.body, [&](Body& to, const Node& node) { return leaf(to, node); });
    for (Access& a : loads_) drop_rules(a);
    piece_.loads = std::move(loads_);
    piece_.body = tidied(body);
    drop_unused_loads(piece_);
  }

 private:
  NodeId leaf(Body& body, const Node& node) {
    if (node.kind == NodeKind::load) return load(body, node);
    if (node.kind != NodeKind::operation) return NodeId();
    if (std::optional<bool> truth = forms_.decided(body, node)) {
      return body.integer(*truth ? 1 : 0, DType::bool_, node.span);
    }
    bool worth = node.op == Op::div || node.op == Op::mod || node.op == Op::min ||
                 node.op == Op::max || node.op == Op::select;
    if (!worth || !is_integer(node.type)) return NodeId();
    std::optional<Affine> form = forms_.form(body, node);
    return form ? body.cast(affine_value(body, *form, node.span), node.type, node.span) : NodeId();
  }

  // The load with as few index values as possible.
  NodeId load(Body& body, Node node) {
    Access access = loads_[node.slot];
    const Shape& shape = program_.tensors[access.tensor].shape;
    std::vector<NodeId> operands;
    for (size_t d = 0; d < access.index.size(); ++d) {
      Index& index = access.index[d];
      if (index.value < 0) continue;
      NodeId value = node.args[static_cast<size_t>(index.value)];
      std::optional<Affine> form = forms_.form(body, value);
      // Outside of the dimension an in-range value makes a point invalid.
      bool inside = form && forms_.within(*form, 0, shape[d]);
      if (form && (inside || index.boundary != Boundary::in_range)) {
        index.affine = *form;
        index.value = -1;
        continue;
      }
      index.value = static_cast<int>(operands.size());
      operands.push_back(value);
    }
    if (operands.size() == node.args.size()) return NodeId();
    node.args = std::move(operands);
    node.slot = position_of(loads_, std::move(access));
    return body.add(std::move(node));
  }

  void drop_rules(Access& access) const {
    const Shape& shape = program_.tensors[access.tensor].shape;
    for (size_t d = 0; d < access.index.size(); ++d) {
      Index& index = access.index[d];
      if (index.value < 0 && forms_.within(index.affine, 0, shape[d])) {
        index.boundary = Boundary::in_range;
      }
    }
  }

  const BoundProgram& program_;
  Piece& piece_;
  IndexForms forms_;
  std::vector<Access> loads_;
};

bool has_work(const Piece& piece) {
  bool found = false;
  visit_nodes(piece.body, [&](const Node& n) { found = found || n.kind == NodeKind::index; });
  for (const Access& a : piece.loads) {
    for (const Index& i : a.index) {
      found = found || i.value >= 0 || i.boundary != Boundary::in_range;
    }
  }
  return found;
}

}  // namespace

void resolve_indices(BoundProgram& program, const Target&) {
  for (BoundStatement& statement : program.statements) {
    Contraction* c = std::get_if<Contraction>(&statement);
    if (c == nullptr || !c->normalized) continue;
    for (Piece& piece : c->pieces) {
      bool empty = std::any_of(piece.box.begin(), piece.box.end(), [](int64_t n) { return n < 1; });
      if (!empty && has_work(piece)) Resolver(program, piece).run();
    }
  }
}

}  // namespace tile
