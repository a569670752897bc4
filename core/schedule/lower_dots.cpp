// The innermost statement of a sum that packed neighbours make, and its operands.
#include "core/schedule/lowering.h"

namespace tile::lowering {

State PieceLowering::at_neighbour(int64_t i, const State& s) const {
  State at = s;
  at.at[static_cast<size_t>(schedule_.reduce.back().unknown)].levels.push_back({1, Expr(i)});
  return at;
}

DType PieceLowering::dot_element(size_t load) const {
  return load == dot_->x ? dot_->element_x : dot_->element_y;
}

// The neighbours from s on of which `present` exist, the others zero.
NodeId PieceLowering::packed_group(Value& into, size_t load, int64_t present,
                                   const State& s) const {
  DType type = dot_element(load);
  std::vector<NodeId> elements;
  for (int64_t i = 0; i < dot_->group; ++i) {
    if (i < present) {
      NodeId read = element(into, load, at_neighbour(i, s));
      elements.push_back(into.body.cast(read, type));
    } else {
      elements.push_back(is_float(type) ? into.body.real(0, type) : into.body.integer(0, type));
    }
  }
  return into.body.operation(dot_->pack, std::move(elements), DType::u32);
}

NodeId PieceLowering::dot_operand(Value& into, size_t load, const State& s) const {
  if (s.packed[load] < 0) return packed_group(into, load, dot_->group, s);
  into.loads.push_back(packed_access(load, s));
  return into.body.load(static_cast<int>(into.loads.size()) - 1, DType::u32);
}

nest::Store PieceLowering::dot(const State& s) const {
  Value value;
  nest::Store store;
  store.target = accumulator(0, s);
  NodeId x = dot_operand(value, dot_->x, s), y = dot_operand(value, dot_->y, s);
  value.loads.push_back(store.target);
  NodeId old = value.body.load(static_cast<int>(value.loads.size()) - 1, contraction_.accumulator);
  value.body.results = {value.body.operation(dot_->dot, {x, y, old}, contraction_.accumulator)};
  settle(store, std::move(value));
  return store;
}

}  // namespace tile::lowering
