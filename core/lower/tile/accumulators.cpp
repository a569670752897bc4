// The accumulators of a register tile.
#include "core/lower/tile/accumulators.h"

#include <limits>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/forms/long_tile.h"
#include "core/lower/context/piece_values.h"
#include "core/lower/context/tile_loops.h"
#include "core/lower/launch/nest_builders.h"

namespace tile::lowering {

namespace {

using nest::Block;

int64_t extreme_integer(DType type, bool largest) {
  int bits = bit_width(type);
  if (type == DType::bool_) return largest ? 1 : 0;
  if (!is_signed_integer(type))
    return largest ? static_cast<int64_t>(~uint64_t{0} >> (64 - bits)) : 0;
  int64_t high = std::numeric_limits<int64_t>::max() >> (64 - bits);
  return largest ? high : -high - 1;
}

}  // namespace

NodeId neutral(Body& body, Aggregation aggregation, DType type) {
  double infinity = std::numeric_limits<double>::infinity();
  bool least = aggregation == Aggregation::max, most = aggregation == Aggregation::min;
  int64_t one = aggregation == Aggregation::product ? 1 : 0;
  if (is_float(type)) {
    double value = least ? -infinity : most ? infinity : static_cast<double>(one);
    if (aggregation == Aggregation::assign) value = -0.0;  // -0 + x is x, whatever the sign of x
    return body.real(value, type);
  }
  return body.integer(least || most ? extreme_integer(type, most) : one, type);
}

// How a tile's accumulators take a term. An assignment with a reduction has one valid point for
// each cell (rule 4.7), so its terms may be summed: independent accumulators and lanes then combine
// as ever.
nest::StoreKind store_kind(Aggregation aggregation, DType type) {
  switch (aggregation) {
    case Aggregation::sum:
      return nest::StoreKind::add;
    case Aggregation::product:
      return nest::StoreKind::multiply;
    case Aggregation::max:
      return nest::StoreKind::max;
    case Aggregation::min:
      return nest::StoreKind::min;
    case Aggregation::assign:
      return type == DType::bool_ ? nest::StoreKind::max : nest::StoreKind::add;
  }
  return nest::StoreKind::assign;
}

nest::Access Accumulators::accumulator(size_t output, const State& s) const {
  nest::Access a;
  a.buffer = buffers_[output];
  if (c_.copies > 1 && !c_.lanes_reduce) a.index.push_back(s.copy);
  a.index.insert(a.index.end(), s.tile_index.begin(),
                 s.tile_index.end() - static_cast<std::ptrdiff_t>(s.carried_index));
  if (a.index.empty()) a.index.emplace_back(0);
  return a;
}

nest::Access Accumulators::lane_accumulator(size_t output, const State& s) const {
  nest::Access a;
  a.buffer = lanes_[output];
  a.index = s.tile_index;
  a.index.push_back(s.copy);
  a.index.push_back(s.lane);
  return a;
}

nest::Access Accumulators::present(const State& s) const { return in_tile(present_, s); }

nest::Store Accumulators::neutral_store(nest::Access target) const {
  nest::Store store;
  store.target = std::move(target);
  store.body.results = {
      neutral(store.body, c_.contraction.aggregation, c_.contraction.accumulator)};
  return store;
}

nest::BufferId Accumulators::register_buffer(const std::string& name, DType type,
                                             Shape shape) const {
  if (shape.empty()) shape = {1};
  // Rows of a tile register, and of a long tile, are walked by a loop.
  bool walked = c_.tiles || is_long_tile(c_.schedule);
  nest::Scope scope = walked ? nest::Scope::scratch : nest::Scope::registers;
  return c_.frame.add_buffer(name, type, scope, std::move(shape));
}

// The register buffers of a piece: made once, alive in each version of the tile.
void Accumulators::make() {
  for (size_t o = 0; o < c_.contraction.outputs.size(); ++o) {
    Shape shape = c_.tile_shape, wide = c_.tile_shape;
    shape.resize(shape.size() - c_.carried_loops);
    if (c_.copies > 1 && !c_.lanes_reduce) shape.insert(shape.begin(), c_.copies);
    buffers_.push_back(register_buffer("acc", c_.contraction.accumulator, shape));
    if (!c_.lanes_reduce) continue;
    wide.push_back(c_.copies);
    wide.push_back(c_.lane_width);
    lanes_.push_back(register_buffer("lanes", c_.contraction.accumulator, wide));
  }
  if (c_.may_be_empty) present_ = register_buffer("present", DType::i32, c_.tile_shape);
  if (!c_.flips()) return;
  Shape sums;
  for (size_t i = 0; i < c_.schedule.tile.size(); ++i) {
    IteratorId u = c_.schedule.tile[i].iterator;
    if (moves_with(c_.piece.loads[c_.dot->other()], u)) sums.push_back(c_.tile_shape[i]);
  }
  correction_ = register_buffer("correction", c_.contraction.accumulator, sums);
}

// The independent accumulators beside the first, and those of the lanes.
Block Accumulators::initialise_copies(const State& s) const {
  if (c_.copies == 1 && !c_.lanes_reduce) return {};
  return tile_loops(c_, s, [&](const State& at) {
    Block out;
    for (size_t o = 0; o < c_.contraction.outputs.size(); ++o) {
      for (int64_t c = c_.lanes_reduce ? 0 : 1; c < c_.copies; ++c) {
        State copy = at;
        copy.copy = c;
        append(out, over_lanes(copy, [&](const State& lane) {
                 return neutral_store(c_.lanes_reduce ? lane_accumulator(o, lane)
                                                      : accumulator(o, lane));
               }));
      }
    }
    return out;
  });
}

// A statement for each lane of a vectorised reduction, or just one.
Block Accumulators::over_lanes(const State& s,
                               const std::function<nest::Store(const State&)>& make) const {
  if (!c_.lanes_reduce) return {statement(make(s))};
  nest::For loop = make_loop("lane", 0, c_.lane_width, nest::LoopKind::vector);
  loop.width = c_.lane_width;
  State inner = s;
  inner.lane = Expr::variable("lane");
  loop.body.push_back(statement(make(inner)));
  return {statement(std::move(loop))};
}

// Adds the independent accumulators and the lanes into the first accumulator.
Block Accumulators::combine_copies(const State& s) const {
  if (c_.copies == 1 && !c_.lanes_reduce) return {};
  nest::StoreKind kind = store_kind(c_.contraction.aggregation, c_.contraction.accumulator);
  auto into = [&](nest::Access target, nest::Access from) {
    nest::Store store;
    store.target = std::move(target);
    store.kind = kind;
    store.loads = {std::move(from)};
    store.body.results = {store.body.load(0, c_.contraction.accumulator)};
    return store;
  };
  return tile_loops(c_, s, [&](const State& at) {
    Block out;
    State first = at;
    first.copy = 0;
    for (size_t o = 0; o < c_.contraction.outputs.size(); ++o) {
      for (int64_t c = 1; c < c_.copies; ++c) {
        append(out, over_lanes(first, [&](const State& lane) {
                 State copy = lane;
                 copy.copy = c;
                 return c_.lanes_reduce ? into(lane_accumulator(o, lane), lane_accumulator(o, copy))
                                        : into(accumulator(o, lane), accumulator(o, copy));
               }));
      }
      if (!c_.lanes_reduce) continue;
      append(out, over_lanes(first, [&](const State& lane) {
               return into(accumulator(o, lane), lane_accumulator(o, lane));
             }));
    }
    return out;
  });
}

nest::Block Accumulators::allocations() const {
  Block out;
  for (nest::BufferId id : buffers_) out.push_back({nest::Alloc{id}});
  for (nest::BufferId id : lanes_) out.push_back({nest::Alloc{id}});
  if (present_.valid()) out.push_back({nest::Alloc{present_}});
  if (correction_.valid()) out.push_back({nest::Alloc{correction_}});
  return out;
}

}  // namespace tile::lowering
