// The register tile: accumulators, their start, the innermost statement and the end.
#include <algorithm>
#include <limits>

#include "core/kernel/collapse.h"
#include "core/kernel/forms/long_tile.h"
#include "core/lower/piece/lowering.h"

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

nest::Access PieceLowering::accumulator(size_t output, const State& s) const {
  nest::Access a;
  a.buffer = accumulators_[output];
  if (copies_ > 1 && !lanes_reduce_) a.index.push_back(s.copy);
  a.index.insert(a.index.end(), s.tile_index.begin(),
                 s.tile_index.end() - static_cast<std::ptrdiff_t>(s.carried_index));
  if (a.index.empty()) a.index.emplace_back(0);
  return a;
}

nest::Access PieceLowering::lane_accumulator(size_t output, const State& s) const {
  nest::Access a;
  a.buffer = lanes_[output];
  a.index = s.tile_index;
  a.index.push_back(s.copy);
  a.index.push_back(s.lane);
  return a;
}

nest::Access PieceLowering::present(const State& s) const {
  nest::Access a;
  a.buffer = present_;
  a.index = s.tile_index;
  if (a.index.empty()) a.index.emplace_back(0);
  return a;
}

nest::Store PieceLowering::neutral_store(nest::Access target) const {
  nest::Store store;
  store.target = std::move(target);
  store.body.results = {neutral(store.body, contraction_.aggregation, contraction_.accumulator)};
  return store;
}

int PieceLowering::register_buffer(const std::string& name, DType type, Shape shape) {
  if (shape.empty()) shape = {1};
  // Rows of a tile register, and of a long tile, are walked by a loop.
  bool walked = tiles_ || is_long_tile(schedule_);
  nest::Scope scope = walked ? nest::Scope::scratch : nest::Scope::registers;
  return frame_.add_buffer(name, type, scope, std::move(shape));
}

// The register buffers of a piece: made once, alive in each version of the tile.
void PieceLowering::make_accumulators() {
  for (size_t o = 0; o < contraction_.outputs.size(); ++o) {
    Shape shape = tile_shape_, wide = tile_shape_;
    shape.resize(shape.size() - carried_loops_);
    if (copies_ > 1 && !lanes_reduce_) shape.insert(shape.begin(), copies_);
    accumulators_.push_back(register_buffer("acc", contraction_.accumulator, shape));
    if (!lanes_reduce_) continue;
    wide.push_back(copies_);
    wide.push_back(lane_width_);
    lanes_.push_back(register_buffer("lanes", contraction_.accumulator, wide));
  }
  if (may_be_empty_) present_ = register_buffer("present", DType::i32, tile_shape_);
  if (!flips()) return;
  Shape sums;
  for (size_t i = 0; i < schedule_.tile.size(); ++i) {
    auto u = static_cast<size_t>(schedule_.tile[i].iterator);
    if (moves_with(piece_.loads[dot_->other()], u)) sums.push_back(tile_shape_[i]);
  }
  correction_ = register_buffer("correction", contraction_.accumulator, sums);
}

Block PieceLowering::allocations() const {
  Block out;
  for (int id : accumulators_) out.push_back({nest::Alloc{id}});
  for (int id : lanes_) out.push_back({nest::Alloc{id}});
  if (present_ >= 0) out.push_back({nest::Alloc{present_}});
  if (correction_ >= 0) out.push_back({nest::Alloc{correction_}});
  for (const auto& [tensor, id] : register_values_) out.push_back({nest::Alloc{id}});
  return out;
}

// A cell at the sums of the blocks before.
Block PieceLowering::resumed(const State& at) {
  Block out;
  for (size_t o = 0; o < contraction_.outputs.size(); ++o) {
    nest::Store first = neutral_store(accumulator(o, at)), again;
    again.target = first.target;
    again.loads = {partial(o, at)};
    again.body.results = {again.body.load(0, contraction_.accumulator)};
    rescale(again, at);
    Block sums{statement(std::move(again))};
    Block valid = guarded(sums, at, true);
    // A cell outside the domain has no partial sum: its index may be outside the output.
    bool everywhere = std::holds_alternative<nest::Store>(valid.front().what);
    if (!everywhere) out.push_back(statement(std::move(first)));
    append(out, std::move(valid));
  }
  return out;
}

// A cell's sums, until the next block.
Block PieceLowering::kept(const State& at) {
  Block out;
  for (size_t o = 0; o < contraction_.outputs.size(); ++o) {
    nest::Store store;
    store.target = partial(o, at);
    store.loads = {accumulator(o, at)};
    store.body.results = {store.body.load(0, contraction_.accumulator)};
    out.push_back(statement(std::move(store)));
  }
  return guarded(std::move(out), at, true);
}

// A register tile's accumulators at their neutral element, or at the sums of the blocks before.
Block PieceLowering::initialise(const State& s) {
  auto start = [&](const State& at, bool resume) {
    Block out;
    if (resume) out = resumed(at);
    for (size_t o = 0; o < contraction_.outputs.size() && !resume; ++o) {
      out.push_back(statement(neutral_store(accumulator(o, at))));
    }
    if (may_be_empty_) {
      nest::Store none;
      none.target = present(at);
      none.body.results = {none.body.integer(0, DType::i32)};
      out.push_back(statement(std::move(none)));
    }
    return out;
  };
  auto tiles = [&](bool resume) {
    return tile_loops(0, s, [&](const State& at) { return start(at, resume); });
  };
  Block out;
  if (blocked_) {
    nest::If choice;
    choice.predicate = first_block(s);
    choice.then = tiles(false);
    choice.otherwise = tiles(true);
    out.push_back(statement(std::move(choice)));
  } else {
    out = tiles(false);
  }
  append(out, initialise_copies(s));
  return out;
}

// The independent accumulators beside the first, and those of the lanes.
Block PieceLowering::initialise_copies(const State& s) {
  if (copies_ == 1 && !lanes_reduce_) return {};
  return tile_loops(0, s, [&](const State& at) {
    Block out;
    for (size_t o = 0; o < contraction_.outputs.size(); ++o) {
      for (int64_t c = lanes_reduce_ ? 0 : 1; c < copies_; ++c) {
        State copy = at;
        copy.copy = c;
        append(out, over_lanes(copy, [&](const State& lane) {
                 return neutral_store(lanes_reduce_ ? lane_accumulator(o, lane)
                                                    : accumulator(o, lane));
               }));
      }
    }
    return out;
  });
}

// A statement for each lane of a vectorised reduction, or just one.
Block PieceLowering::over_lanes(const State& s,
                                const std::function<nest::Store(const State&)>& make) const {
  if (!lanes_reduce_) return {statement(make(s))};
  nest::For loop = make_loop("lane", 0, lane_width_, nest::LoopKind::vector);
  loop.width = lane_width_;
  State inner = s;
  inner.lane = Expr::variable("lane");
  loop.body.push_back(statement(make(inner)));
  return {statement(std::move(loop))};
}

Block PieceLowering::accumulate(const State& s) {
  Block out;
  if (dot_) out.push_back(statement(dot(s)));
  for (size_t o = 0; o < contraction_.outputs.size() && !dot_; ++o) {
    Value value;
    NodeId root = translate(value, piece_, piece_.body.results[o], s, {});
    nest::Store store;
    store.target = lanes_reduce_ ? lane_accumulator(o, s) : accumulator(o, s);
    store.kind = store_kind(contraction_.aggregation, contraction_.accumulator);
    const Node& top = value.body[root];
    bool product = top.kind == NodeKind::operation && top.op == Op::mul && is_float(top.type) &&
                   top.type == contraction_.accumulator;
    if (product && store.kind == nest::StoreKind::add) {
      store.kind = nest::StoreKind::fma;
      value.body.results = top.args;
    } else {
      value.body.results = {value.body.cast(root, contraction_.accumulator)};
    }
    settle(store, std::move(value));
    out.push_back(statement(std::move(store)));
  }
  if (may_be_empty_) {
    nest::Store some;
    some.target = present(s);
    some.kind = nest::StoreKind::max;
    some.body.results = {some.body.integer(1, DType::i32)};
    out.push_back(statement(std::move(some)));
  }
  return guarded(std::move(out), s, false);
}

Block PieceLowering::guarded(Block block, const State& s, bool parallel_dims_only) const {
  if (s.guards == Guards::none) return block;
  nest::If guard;
  for (const PlacedConstraint& p : constraints_) {
    if (p.place != Place::tile || (parallel_dims_only && !p.parallel_dims_only)) continue;
    std::vector<Expr> more =
        conditions(*p.constraint, piece_, [&](const Affine& form) { return value_of(form, s); });
    guard.nonnegative.insert(guard.nonnegative.end(), more.begin(), more.end());
  }
  if (guard.nonnegative.empty()) return block;
  guard.then = std::move(block);
  return {statement(std::move(guard))};
}

// Adds the independent accumulators and the lanes into the first accumulator.
Block PieceLowering::combine_copies(const State& s) {
  if (copies_ == 1 && !lanes_reduce_) return {};
  nest::StoreKind kind = store_kind(contraction_.aggregation, contraction_.accumulator);
  auto into = [&](nest::Access target, nest::Access from) {
    nest::Store store;
    store.target = std::move(target);
    store.kind = kind;
    store.loads = {std::move(from)};
    store.body.results = {store.body.load(0, contraction_.accumulator)};
    return store;
  };
  return tile_loops(0, s, [&](const State& at) {
    Block out;
    State first = at;
    first.copy = 0;
    for (size_t o = 0; o < contraction_.outputs.size(); ++o) {
      for (int64_t c = 1; c < copies_; ++c) {
        append(out, over_lanes(first, [&](const State& lane) {
                 State copy = lane;
                 copy.copy = c;
                 return lanes_reduce_ ? into(lane_accumulator(o, lane), lane_accumulator(o, copy))
                                      : into(accumulator(o, lane), accumulator(o, copy));
               }));
      }
      if (!lanes_reduce_) continue;
      append(out, over_lanes(first, [&](const State& lane) {
               return into(accumulator(o, lane), lane_accumulator(o, lane));
             }));
    }
    return out;
  });
}

Block PieceLowering::finish(const State& s) {
  if (frame_.running.contains(stage_)) return raise_maximum(s);
  Block done = tile_loops(0, s, [&](const State& at) { return results(at); });
  if (!blocked_) return done;
  nest::If choice;
  choice.predicate = last_block(s);
  choice.then = std::move(done);
  choice.otherwise = tile_loops(0, s, [&](const State& at) { return kept(at); });
  return {statement(std::move(choice))};
}

Block PieceLowering::region(const State& s) {
  Block inside;
  if (schedule_.carried >= 0) {
    bool window = window_form(piece_, contraction_).has_value(), lanes = carried_loops_ > 0;
    if (window) inside = lanes ? window_lanes(s) : window_loop(s);
    if (!window) inside = lanes ? carried_lanes(s) : carried_loop(s);
  } else if (tiles_) {
    inside = start_tiles(s);
    append(inside, reduce_loops(0, s));
    append(inside, finish_tiles(s));
  } else if (reduces_) {
    inside = initialise(s);
    append(inside, start_corrections(s));
    append(inside, reduce_loops(0, s));
    append(inside, combine_copies(s));
    append(inside, subtract_corrections(s));
    append(inside, finish(s));
  } else {
    inside = tile_loops(0, s, [&](const State& at) { return results(at); });
  }
  Block out = allocations();
  append(out, std::move(inside));
  nest::If guard;
  for (const PlacedConstraint& p : constraints_) {
    if (p.place != Place::outer || schedule_.carried >= 0) continue;
    std::vector<Expr> more =
        conditions(*p.constraint, piece_, [&](const Affine& form) { return value_of(form, s); });
    guard.nonnegative.insert(guard.nonnegative.end(), more.begin(), more.end());
  }
  if (guard.nonnegative.empty()) return out;
  guard.then = std::move(out);
  return {statement(std::move(guard))};
}

}  // namespace tile::lowering
