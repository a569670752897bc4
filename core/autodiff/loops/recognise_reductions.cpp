#include "core/autodiff/loops/recognise_reductions.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

namespace tile {
namespace {

// One component of an ordered fold's step.
struct Step {
  Op op = Op::ident;  // ident: the value stays as it is
  NodeId term;
};

class Recogniser {
 public:
  explicit Recogniser(const Node& fold) : carried_(fold.slot), region_(*fold.region) {
    depends_.resize(region_.nodes.size());
    for (size_t i = 0; i < depends_.size(); ++i) depends_[i] = is_carried(region_.nodes[i]);
    spread(0);
  }

  // The steps, whose terms are nodes of region(); nullopt: one of them is none.
  std::optional<std::vector<Step>> run() {
    std::vector<Step> steps;
    for (size_t c = 0; c < carried_; ++c) {
      NodeId root = region_.results[c];
      std::optional<Step> step = find(root, c);
      if (!step) return std::nullopt;
      steps.push_back(*step);
    }
    return steps;
  }
  const Body& region() const { return region_; }

 private:
  bool is_carried(const Node& n) const {
    return n.kind == NodeKind::argument && n.slot >= 1 && n.slot <= carried_;
  }
  void spread(size_t from) {
    for (size_t i = from; i < region_.nodes.size(); ++i) {
      for (NodeId arg : region_.nodes[i].args) depends_[i] = depends_[i] || depends_[arg];
    }
  }
  bool depends(NodeId id) const { return depends_[id]; }
  NodeId added(Op op, NodeId a, NodeId b) {
    if (!a.valid() || !b.valid()) return a.valid() ? a : b;
    return add(op, {a, b}, region_[a].type);
  }
  NodeId add(Op op, std::vector<NodeId> args, DType type) {
    NodeId id = region_.operation(op, std::move(args), type);
    depends_.push_back(false);
    return id;
  }

  std::optional<Step> find(NodeId root, size_t component) {
    const Node n = region_[root];
    if (n.kind == NodeKind::argument && n.slot == component + 1) return Step{};
    if (n.kind != NodeKind::operation) return std::nullopt;
    Op op = n.op == Op::sub ? Op::add : n.op;
    bool combines = op == Op::add || op == Op::mul || op == Op::max || op == Op::min;
    if (!combines) return std::nullopt;
    std::optional<NodeId> term = term_of(root, component, op);
    return term ? std::optional(Step{op, *term}) : std::nullopt;
  }

  // What `root` combines with the carried value by `op`; -1: nothing.
  std::optional<NodeId> term_of(NodeId root, size_t component, Op op) {
    const Node n = region_[root];
    if (n.kind == NodeKind::argument && n.slot == component + 1) return NodeId();
    if (n.kind != NodeKind::operation) return std::nullopt;
    bool subtracts = op == Op::add && n.op == Op::sub;
    if (n.op != op && !subtracts) return std::nullopt;
    NodeId a = n.args[0], b = n.args[1];
    if (depends(a) == depends(b) || (subtracts && depends(b))) return std::nullopt;
    if (depends(b)) std::swap(a, b);
    std::optional<NodeId> inner = term_of(a, component, op);
    if (!inner) return std::nullopt;
    if (subtracts) b = add(Op::neg, {b}, region_[b].type);
    return added(op, *inner, b);
  }

  size_t carried_;
  Body region_;
  IdVector<NodeId, bool> depends_;
};

class Rewriter {
 public:
  Body run(const Body& body) {
    return tidied(rewritten(body, [&](Body& to, const Node& n) { return leaf(to, n); }));
  }

 private:
  NodeId leaf(Body& to, const Node& n) {
    if (n.kind == NodeKind::component) {
      auto known = parts_.find({&to, n.args[0]});
      return known == parts_.end() ? NodeId() : known->second[n.slot];
    }
    if (n.kind != NodeKind::fold) return NodeId();
    Node fold = n;
    fold.region = std::make_shared<const Body>(Rewriter().run(*n.region));
    return fold.op == Op::ident ? ordered(to, fold) : from_neutral(to, fold);
  }

  NodeId mark(Body& to, std::vector<NodeId> parts, Span span) {
    NodeId id = to.integer(0, DType::i64, span);
    parts_[{&to, id}] = std::move(parts);
    return id;
  }

  NodeId ordered(Body& to, const Node& fold) {
    Recogniser recogniser(fold);
    std::optional<std::vector<Step>> steps = recogniser.run();
    if (!steps) {
      parts_.erase({&to, NodeId(to.nodes.size())});
      return to.add(fold);
    }
    std::vector<NodeId> parts(fold.args.begin() + 2, fold.args.begin() + 2 + fold.slot);
    for (Op op : {Op::add, Op::mul, Op::max, Op::min}) {
      std::vector<size_t> components;
      for (size_t c = 0; c < steps->size(); ++c) {
        if ((*steps)[c].op == op && (*steps)[c].term.valid()) components.push_back(c);
      }
      if (!components.empty()) split(to, fold, recogniser.region(), *steps, components, parts);
    }
    return mark(to, std::move(parts), fold.span);
  }

  // A fold of the given components alone.
  void split(Body& to, const Node& fold, const Body& region, const std::vector<Step>& steps,
             const std::vector<size_t>& components, std::vector<NodeId>& parts) {
    size_t moved = fold.slot - components.size();
    Node part = fold;
    part.op = steps[components[0]].op;
    part.slot = components.size();
    part.args = {fold.args[0], fold.args[1]};
    Body own = region;
    own.results.clear();
    for (size_t c : components) {
      part.args.push_back(fold.args[c + 2]);
      own.results.push_back(steps[c].term);
    }
    part.args.insert(part.args.end(), fold.args.begin() + 2 + fold.slot, fold.args.end());
    // Carried values are not used: what is left of the arguments moves down.
    own = tidied(own);
    for (Node& n : own.nodes) {
      if (n.kind == NodeKind::argument && n.slot > fold.slot) n.slot -= moved;
    }
    part.region = std::make_shared<const Body>(std::move(own));
    std::vector<NodeId> results = parts_of(to, part);
    for (size_t k = 0; k < components.size(); ++k) parts[components[k]] = results[k];
  }

  NodeId from_neutral(Body& to, const Node& fold) {
    return mark(to, parts_of(to, fold), fold.span);
  }

  // Values of a reduction: it starts from the neutral element, and its start is combined with it.
  std::vector<NodeId> parts_of(Body& to, const Node& fold) {
    Node own = fold;
    size_t count = fold.slot;
    std::vector<NodeId> starts(fold.args.begin() + 2,
                               fold.args.begin() + 2 + static_cast<std::ptrdiff_t>(count));
    std::vector<bool> apart(count, false);
    for (size_t c = 0; c < count; ++c) {
      NodeId neutral = neutral_element(to, fold.op, to[starts[c]].type);
      if (!neutral.valid() || is_neutral(to[starts[c]], fold.op)) continue;
      apart[c] = true;
      own.args[c + 2] = neutral;
    }
    NodeId id = to.add(std::move(own));
    parts_.erase({&to, id});
    std::vector<NodeId> parts;
    for (size_t c = 0; c < count; ++c) {
      DType type = to[starts[c]].type;
      NodeId part = to.component(id, c, type, fold.span);
      if (apart[c]) part = to.operation(fold.op, {starts[c], part}, type, fold.span);
      parts.push_back(part);
    }
    return parts;
  }

  std::map<std::pair<const Body*, NodeId>, std::vector<NodeId>> parts_;
};

}  // namespace

double neutral_value(Op op) {
  switch (op) {
    case Op::mul:
      return 1;
    case Op::max:
      return -std::numeric_limits<double>::infinity();
    case Op::min:
      return std::numeric_limits<double>::infinity();
    default:
      return 0;
  }
}

bool is_neutral(const Node& n, Op op) {
  double wanted = neutral_value(op);
  return (n.kind == NodeKind::integer && static_cast<double>(n.integer) == wanted) ||
         (n.kind == NodeKind::real && n.real == wanted);
}

NodeId neutral_element(Body& body, Op op, DType type) {
  if (type != compute_type(type)) return NodeId();
  if (is_float(type)) return body.real(neutral_value(op), type);
  bool integral = op == Op::add || op == Op::mul;
  return integral ? body.integer(static_cast<int64_t>(neutral_value(op)), type) : NodeId();
}

Body with_reductions(const Body& body) { return Rewriter().run(body); }

}  // namespace tile
