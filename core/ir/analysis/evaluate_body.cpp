#include "core/ir/analysis/evaluate_body.h"

#include <array>
#include <utility>

namespace tile {
namespace {

class Evaluation {
 public:
  Evaluation(const Body& body, Leaves& leaves, std::span<const Scalar> arguments,
             IdVector<NodeId, Scalar>& values)
      : body_(body), leaves_(leaves), arguments_(arguments), values_(values) {}

  bool run() {
    values_.resize(body_.nodes.size());
    for (size_t n = 0; n < values_.size(); ++n) {
      if (!evaluate_node(body_.nodes[n], n)) return false;
    }
    return true;
  }

 private:
  const Scalar& at(NodeId id) const { return values_[id]; }

  bool evaluate_node(const Node& node, size_t n) {
    Scalar& value = values_[n];
    switch (node.kind) {
      case NodeKind::integer:
        value = integer_scalar(node.integer, node.type);
        return true;
      case NodeKind::real:
        value = real_scalar(node.real, node.type);
        return true;
      case NodeKind::size:
      case NodeKind::index:
        value = leaves_.value(node);
        return true;
      case NodeKind::load:
        return load(node, value);
      case NodeKind::operation:
        value = operation(node);
        return true;
      case NodeKind::fold:
        return fold(node, n);
      case NodeKind::argument:
        value = arguments_[node.slot];
        return true;
      case NodeKind::component:
        value = carried(node.args[0])[node.slot];
        return true;
    }
    return false;
  }

  bool load(const Node& node, Scalar& value) {
    std::vector<Scalar> operands;
    for (NodeId arg : node.args) operands.push_back(at(arg));
    return leaves_.load(node, operands, value);
  }

  Scalar operation(const Node& node) const {
    if (node.op == Op::cast) return convert(at(node.args[0]), node.type);
    std::array<Scalar, 4> operands;
    internal_check(node.args.size() <= operands.size(), "evaluate: too many operands");
    for (size_t a = 0; a < node.args.size(); ++a) operands[a] = at(node.args[a]);
    return evaluate(node.op, node.type, std::span(operands.data(), node.args.size()));
  }

  bool fold(const Node& node, size_t n) {
    size_t count = node.slot;
    std::vector<Scalar> given{integer_scalar(0, DType::i64)};
    for (size_t a = 2; a < node.args.size(); ++a) given.push_back(at(node.args[a]));
    IdVector<NodeId, Scalar> inside;
    for (int64_t i = at(node.args[0]).i, end = at(node.args[1]).i; i < end; ++i) {
      leaves_.iterate(node, i);
      given[0].i = i;
      if (!Evaluation(*node.region, leaves_, given, inside).run()) return false;
      std::vector<Scalar> next;  // all results come before any carried value changes
      for (NodeId r : node.region->results) next.push_back(inside[r]);
      for (size_t c = 0; c < count; ++c) {
        given[c + 1] =
            node.op == Op::ident ? next[c] : combine_values(node.op, given[c + 1], next[c]);
      }
    }
    folds_.emplace_back(NodeId(n),
                        std::vector<Scalar>(given.begin() + 1, given.begin() + 1 + node.slot));
    return true;
  }

  const std::vector<Scalar>& carried(NodeId fold) const {
    for (const auto& [id, values] : folds_) {
      if (id == fold) return values;
    }
    throw InternalError("body: a component of no fold");
  }

  const Body& body_;
  Leaves& leaves_;
  std::span<const Scalar> arguments_;
  IdVector<NodeId, Scalar>& values_;
  std::vector<std::pair<NodeId, std::vector<Scalar>>> folds_;
};

}  // namespace

void Leaves::iterate(const Node&, int64_t) {}

bool evaluate_body(const Body& body, Leaves& leaves, IdVector<NodeId, Scalar>& values) {
  return Evaluation(body, leaves, {}, values).run();
}

Scalar combine_values(Op op, const Scalar& old, const Scalar& term) {
  DType type = compute_type(old.type);
  std::array<Scalar, 2> operands{convert(old, type), convert(term, type)};
  return convert(evaluate(op, type, operands), old.type);
}

}  // namespace tile
