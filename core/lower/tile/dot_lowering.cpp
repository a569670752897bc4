// The innermost statement of a sum that packed neighbours make, and its operands.
#include "core/lower/tile/dot_lowering.h"

#include "core/ir/analysis/accesses.h"
#include "core/lower/context/tile_loops.h"
#include "core/lower/launch/nest_builders.h"

namespace tile::lowering {

namespace {

using nest::Block;

constexpr int64_t kTopBits = 0x80808080;  // of four bytes

}  // namespace

State DotLowering::at_neighbour(int64_t i, const State& s) const {
  State at = s;
  at.at[c_.schedule.reduce.back().iterator].levels.push_back({1, Expr(i)});
  return at;
}

DType DotLowering::dot_element(size_t load) const {
  return load == c_.dot->x ? c_.dot->element_x : c_.dot->element_y;
}

// The neighbours from s on of which `present` exist, the others zero.
NodeId DotLowering::packed_group(Value& into, size_t load, int64_t present, const State& s) const {
  DType type = dot_element(load);
  std::vector<NodeId> elements;
  for (int64_t i = 0; i < c_.dot->group; ++i) {
    if (i < present) {
      NodeId read = values_.element(into, load, at_neighbour(i, s));
      elements.push_back(into.body.cast(read, type));
    } else {
      elements.push_back(is_float(type) ? into.body.real(0, type) : into.body.integer(0, type));
    }
  }
  NodeId group = into.body.operation(c_.dot->pack, std::move(elements), DType::u32);
  if (c_.dot->flipped != load) return group;
  return into.body.operation(Op::bit_xor, {group, into.body.integer(kTopBits, DType::u32)},
                             DType::u32);
}

NodeId DotLowering::dot_operand(Value& into, size_t load, const State& s) const {
  if (!s.packed[load].valid()) return packed_group(into, load, c_.dot->group, s);
  into.loads.push_back(c_.packed_access(load, s));
  return into.body.load(into.loads.size() - 1, DType::u32);
}

nest::Store DotLowering::dot(const State& s) const {
  Value value;
  nest::Store store;
  store.target = accumulators_.accumulator(0, s);
  NodeId x = dot_operand(value, c_.dot->x, s), y = dot_operand(value, c_.dot->y, s);
  value.loads.push_back(store.target);
  NodeId old = value.body.load(value.loads.size() - 1, c_.contraction.accumulator);
  value.body.results = {value.body.operation(c_.dot->dot, {x, y, old}, c_.contraction.accumulator)};
  settle(store, std::move(value));
  return store;
}

// With four neighbours of one sign, 128 times the sums of the other load's elements (or -128 times,
// where those are unsigned): the dot of its groups with top bits alone.
nest::Access DotLowering::correction(const State& s) const {
  nest::Access a;
  a.buffer = accumulators_.correction();
  for (size_t i = 0; i < c_.schedule.tile.size(); ++i) {
    IteratorId u = c_.schedule.tile[i].iterator;
    if (moves_with(c_.piece.loads[c_.dot->other()], u)) a.index.push_back(s.tile_index[i]);
  }
  if (a.index.empty()) a.index.emplace_back(0);
  return a;
}

Block DotLowering::start_corrections(const State& s) const {
  if (!c_.flips()) return {};
  return tile_loops_of(c_, c_.dot->other(), s, [&](const State& at) {
    return Block{statement(accumulators_.neutral_store(correction(at)))};
  });
}

Block DotLowering::add_corrections(const State& s) const {
  if (!c_.flips()) return {};
  return tile_loops_of(c_, c_.dot->other(), s, [&](const State& at) {
    Value value;
    nest::Store store;
    store.target = correction(at);
    NodeId read = dot_operand(value, c_.dot->other(), at);
    NodeId top = value.body.integer(kTopBits, DType::u32);
    value.loads.push_back(store.target);
    DType type = c_.contraction.accumulator;
    NodeId old = value.body.load(value.loads.size() - 1, type);
    bool first = c_.dot->other() == c_.dot->x;
    value.body.results = {
        value.body.operation(c_.dot->dot, {first ? read : top, first ? top : read, old}, type)};
    settle(store, std::move(value));
    return Block{statement(std::move(store))};
  });
}

Block DotLowering::subtract_corrections(const State& s) const {
  if (!c_.flips()) return {};
  return tile_loops(c_, s, [&](const State& at) {
    DType type = c_.contraction.accumulator;
    State first = at;
    first.copy = 0;
    nest::Store store;
    store.target = accumulators_.accumulator(0, first);
    store.loads = {store.target, correction(at)};
    NodeId sum = store.body.load(0, type), wrong = store.body.load(1, type);
    store.body.results = {store.body.operation(Op::sub, {sum, wrong}, type)};
    return Block{statement(std::move(store))};
  });
}

}  // namespace tile::lowering
