#include "core/autodiff/loops/tangents.h"

#include <algorithm>
#include <array>
#include <memory>

#include "core/language/tile/tile.h"

namespace tile {
namespace {

using Tangent = std::vector<NodeId>;  // one for each direction, none: zero; empty: all are

class Forward {
 public:
  // `given`: the tangents of the region's arguments, by number.
  Forward(const Body& region, size_t directions, std::vector<Tangent> given)
      : region_(region), directions_(directions), given_(std::move(given)) {}

  // Appends the region's nodes, whose arguments are renumbered by `slots`, and their tangents.
  void run(Body& to, const std::vector<size_t>& slots) {
    to_ = &to;
    for (const Node& n : region_.nodes) {
      Node copied = n;
      for (NodeId& arg : copied.args) arg = copy_[arg];
      Tangent tangent;
      if (n.kind == NodeKind::argument) {
        tangent = given_.at(n.slot);
        copied.slot = slots.at(n.slot);
        copy_.push_back(to.add(std::move(copied)));
      } else if (n.kind == NodeKind::fold) {
        copy_.push_back(loop(n, std::move(copied)));
      } else {
        copy_.push_back(to.add(std::move(copied)));
        tangent = tangent_of(n);
      }
      tangents_.push_back(std::move(tangent));
    }
  }
  NodeId value(NodeId id) const { return copy_[id]; }
  NodeId tangent(NodeId id, size_t direction) const {
    const Tangent& t = tangents_[id];
    return t.empty() ? NodeId() : t[direction];
  }

 private:
  Tangent tangent_of(const Node& n) {
    if (n.kind == NodeKind::component) return component(n);
    bool carries = n.kind == NodeKind::operation && is_float(n.type) &&
                   std::any_of(n.args.begin(), n.args.end(),
                               [&](NodeId arg) { return !tangents_[arg].empty(); });
    if (!carries) return {};
    Tangent sum(directions_);
    for (size_t k = 0; k < n.args.size(); ++k) {
      const Tangent& operand = tangents_[n.args[k]];
      if (!operand.empty()) add_through(n, k, operand, sum);
    }
    return sum;
  }

  // Adds what operand k contributes.
  void add_through(const Node& n, size_t k, const Tangent& operand, Tangent& sum) {
    NodeId factor;
    for (size_t d = 0; d < directions_; ++d) {
      if (!operand[d].valid()) continue;
      NodeId part;
      if (n.op == Op::cast) {
        part = to_->cast(operand[d], n.type, n.span);
      } else if (n.op == Op::select) {
        NodeId test = copy_[n.args[0]], zero = to_->real(0, n.type);
        part = to_->operation(Op::select,
                              {test, k == 1 ? operand[d] : zero, k == 1 ? zero : operand[d]},
                              n.type, n.span);
      } else {
        if (!factor.valid()) factor = local(n, k);
        if (!factor.valid()) return;
        part = times(operand[d], factor, n.type);
      }
      sum[d] = sum[d].valid() ? to_->operation(Op::add, {sum[d], part}, n.type, n.span) : part;
    }
  }

  NodeId times(NodeId a, NodeId b, DType type) {
    auto one = [&](NodeId id) { return (*to_)[id].kind == NodeKind::real && (*to_)[id].real == 1; };
    if (one(b)) return a;
    return one(a) ? b : to_->operation(Op::mul, {a, b}, type);
  }

  // d n / d operand k, as nodes of the node's type; none: zero.
  NodeId local(const Node& n, size_t k) {
    const OpInfo& row = info(n.op);
    if (k >= row.derivatives.size() || row.derivatives[k].empty()) return NodeId();
    constexpr std::array<std::string_view, 4> kNames{"X", "Y", "Z", "R"};
    Body text = parse_scalar_expression(row.derivatives[k], kNames);
    IdVector<NodeId, NodeId> made;
    for (const Node& part : text.nodes) {
      if (part.kind == NodeKind::load) {
        bool result = part.slot == 3;
        made.push_back(result ? copy_.back()
                              : copy_[n.args[std::min<size_t>(part.slot, n.args.size() - 1)]]);
      } else if (part.kind == NodeKind::operation) {
        std::vector<NodeId> args;
        for (NodeId arg : part.args) args.push_back(made[arg]);
        TypeRule rule = info(part.op).rule;
        bool decides = rule == TypeRule::comparison || rule == TypeRule::logical ||
                       rule == TypeRule::predicate;
        made.push_back(to_->operation(part.op, std::move(args), decides ? DType::bool_ : n.type));
      } else {
        double value = part.kind == NodeKind::real ? part.real : static_cast<double>(part.integer);
        made.push_back(to_->real(value, n.type));
      }
    }
    return made[text.results[0]];
  }

  Tangent component(const Node& n) const {
    std::optional<size_t> at = loops_[n.args[0]][n.slot];
    if (!at) return {};
    Tangent tangent;
    for (size_t d = 0; d < directions_; ++d) {
      tangent.push_back(to_->component(copy_[n.args[0]], *at + d, n.type, n.span));
    }
    return tangent;
  }

  NodeId tangent_or_zero(NodeId id, size_t d, DType type) {
    NodeId known = tangent(id, d);
    return known.valid() ? known : to_->real(0, type);
  }

  // An inner fold that carries the tangents of its float values too. `copied`: with operands of the
  // new body.
  NodeId loop(const Node& n, Node copied) {
    size_t carried = n.slot;
    size_t captured = n.args.size() - carried - 2;
    Starts first(carried);
    std::vector<NodeId> args(copied.args.begin(),
                             copied.args.begin() + 2 + static_cast<std::ptrdiff_t>(carried));
    size_t count = carried;
    for (size_t c = 0; c < carried; ++c) {
      DType type = region_[n.args[c + 2]].type;
      if (!is_float(type)) continue;
      first[c] = count;
      count += directions_;
      for (size_t d = 0; d < directions_; ++d)
        args.push_back(tangent_or_zero(n.args[c + 2], d, type));
    }
    Body region;
    std::vector<size_t> slots{0};
    std::vector<Tangent> given(1 + carried + captured);
    for (size_t c = 0; c < carried; ++c) slots.push_back(c + 1);
    for (size_t c = 0; c < carried; ++c) {
      if (!first[c]) continue;
      DType type = region_[n.args[c + 2]].type;
      for (size_t d = 0; d < directions_; ++d)
        given[c + 1].push_back(region.argument(*first[c] + d + 1, type));
    }
    for (size_t k = 0; k < captured; ++k) {
      slots.push_back(args.size() - 1);
      args.push_back(copied.args[carried + 2 + k]);
    }
    for (size_t k = 0; k < captured; ++k) {
      NodeId value = n.args[carried + 2 + k];
      const Tangent outer = tangents_[value];
      for (size_t d = 0; d < outer.size(); ++d) {
        DType type = region_[value].type;
        NodeId argument = outer[d].valid() ? region.argument(args.size() - 1, type) : NodeId();
        given[1 + carried + k].push_back(argument);
        if (outer[d].valid()) args.push_back(outer[d]);
      }
    }
    // A step that combines with the carried values says so.
    Body step = stepwise(n);
    Forward inner(step, directions_, std::move(given));
    inner.run(region, slots);
    for (NodeId result : step.results) region.results.push_back(inner.value(result));
    for (size_t c = 0; c < carried; ++c) {
      if (!first[c]) continue;
      for (size_t d = 0; d < directions_; ++d)
        region.results.push_back(
            inner.tangent_or_zero(step.results[c], d, region_[n.args[c + 2]].type));
    }
    copied.op = Op::ident;
    copied.slot = count;
    copied.args = std::move(args);
    copied.region = std::make_shared<const Body>(std::move(region));
    loops_.resize(std::max(loops_.size(), copy_.size() + 1));
    loops_[copy_.size()] = std::move(first);
    return to_->add(std::move(copied));
  }

  // The region of an ordered fold of the same value.
  Body stepwise(const Node& n) const {
    Body step = *n.region;
    for (size_t c = 0; c < n.slot && n.op != Op::ident; ++c) {
      NodeId& result = step.results[c];
      DType type = region_[n.args[c + 2]].type, wide = compute_type(type);
      NodeId old = step.cast(step.argument(c + 1, type), wide);
      NodeId term = step.cast(result, wide);
      result = step.cast(step.operation(n.op, {old, term}, wide), type);
    }
    return step;
  }

  // Of each component of a fold the first one of its tangents, if it has some.
  using Starts = std::vector<std::optional<size_t>>;
  const Body& region_;
  size_t directions_;
  std::vector<Tangent> given_;
  Body* to_ = nullptr;
  IdVector<NodeId, NodeId> copy_;
  IdVector<NodeId, Tangent> tangents_;
  IdVector<NodeId, Starts> loops_;
};

}  // namespace

Body with_tangents(const Body& region, const std::vector<size_t>& directions, DType type) {
  size_t last = 0;
  for (const Node& n : region.nodes) {
    if (n.kind == NodeKind::argument) last = std::max(last, n.slot);
  }
  for (size_t slot : directions) last = std::max(last, slot);
  Body out;
  std::vector<Tangent> given(last + 1);
  std::vector<size_t> slots;
  for (size_t s = 0; s <= last; ++s) slots.push_back(s);
  for (size_t d = 0; d < directions.size(); ++d) {
    Tangent& of_slot = given[directions[d]];
    of_slot.assign(directions.size(), NodeId());
    of_slot[d] = out.real(1, type);
  }
  Forward forward(region, directions.size(), std::move(given));
  forward.run(out, slots);
  std::vector<NodeId> tangents;
  for (NodeId root : region.results) {
    out.results.push_back(forward.value(root));
    for (size_t d = 0; d < directions.size(); ++d) {
      NodeId t = forward.tangent(root, d);
      tangents.push_back(t.valid() ? t : out.real(0, type));
    }
  }
  out.results.insert(out.results.end(), tangents.begin(), tangents.end());
  return tidied(out);
}

}  // namespace tile
