// The innermost statement of a sum that packed neighbours make, and its operands.
#include "core/kernel/collapse.h"
#include "core/lower/piece/lowering.h"

namespace tile::lowering {
namespace {

using nest::Block;

constexpr int64_t kTopBits = 0x80808080;  // of four bytes

}  // namespace

State PieceLowering::at_neighbour(int64_t i, const State& s) const {
  State at = s;
  at.at[static_cast<size_t>(schedule_.reduce.back().iterator)].levels.push_back({1, Expr(i)});
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
  NodeId group = into.body.operation(dot_->pack, std::move(elements), DType::u32);
  if (dot_->flipped != load) return group;
  return into.body.operation(Op::bit_xor, {group, into.body.integer(kTopBits, DType::u32)},
                             DType::u32);
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

// With four neighbours of one sign, 128 times the sums of the other load's elements (or -128 times,
// where those are unsigned): the dot of its groups with top bits alone.
nest::Access PieceLowering::correction(const State& s) const {
  nest::Access a;
  a.buffer = correction_;
  for (size_t i = 0; i < schedule_.tile.size(); ++i) {
    auto u = static_cast<size_t>(schedule_.tile[i].iterator);
    if (moves_with(piece_.loads[dot_->other()], u)) a.index.push_back(s.tile_index[i]);
  }
  if (a.index.empty()) a.index.emplace_back(0);
  return a;
}

Block PieceLowering::start_corrections(const State& s) {
  if (!flips()) return {};
  return tile_loops_of(dot_->other(), s, [&](const State& at) {
    return Block{statement(neutral_store(correction(at)))};
  });
}

Block PieceLowering::add_corrections(const State& s) {
  if (!flips()) return {};
  return tile_loops_of(dot_->other(), s, [&](const State& at) {
    Value value;
    nest::Store store;
    store.target = correction(at);
    NodeId read = dot_operand(value, dot_->other(), at);
    NodeId top = value.body.integer(kTopBits, DType::u32);
    value.loads.push_back(store.target);
    DType type = contraction_.accumulator;
    NodeId old = value.body.load(static_cast<int>(value.loads.size()) - 1, type);
    bool first = dot_->other() == dot_->x;
    value.body.results = {
        value.body.operation(dot_->dot, {first ? read : top, first ? top : read, old}, type)};
    settle(store, std::move(value));
    return Block{statement(std::move(store))};
  });
}

Block PieceLowering::subtract_corrections(const State& s) {
  if (!flips()) return {};
  return tile_loops(0, s, [&](const State& at) {
    DType type = contraction_.accumulator;
    State first = at;
    first.copy = 0;
    nest::Store store;
    store.target = accumulator(0, first);
    store.loads = {store.target, correction(at)};
    NodeId sum = store.body.load(0, type), wrong = store.body.load(1, type);
    store.body.results = {store.body.operation(Op::sub, {sum, wrong}, type)};
    return Block{statement(std::move(store))};
  });
}

Block PieceLowering::tile_loops_of(size_t load, const State& s, const Leaf& leaf) {
  std::function<Block(size_t, const State&)> from = [&](size_t i, const State& at) -> Block {
    if (i == schedule_.tile.size()) return leaf(at);
    const Loop& l = schedule_.tile[i];
    auto u = static_cast<size_t>(l.iterator);
    auto next = [&](const Expr& value, int64_t size) {
      State inner = at;
      inner.at[u].levels.push_back({l.step, value});
      inner.at[u].size = size;
      inner.at[u].bound = l.step;
      inner.tile_index.push_back(value);
      return from(i + 1, inner);
    };
    if (!moves_with(piece_.loads[load], u)) return next(0, 1);
    int64_t size = at.at[u].size.value(), full = size / l.step, rest = size % l.step;
    std::string name = variable(l.iterator, at);
    bool lanes = l.binding == Binding::vector;
    nest::For loop = make_loop(name, 0, lanes ? size : full,
                               lanes ? nest::LoopKind::vector : nest::LoopKind::unrolled);
    if (lanes) loop.width = tile_shape_[i];
    Block out;
    if (full == 1 && !lanes) {
      out = next(0, l.step);
    } else if (full > 0) {
      loop.body = next(Expr::variable(name), lanes ? 1 : l.step);
      out.push_back(statement(std::move(loop)));
    }
    if (!lanes && rest != 0) append(out, next(full, rest));
    return out;
  };
  return from(0, s);
}

}  // namespace tile::lowering
