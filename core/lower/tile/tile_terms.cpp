// What a point adds to the accumulators of its tile.
#include "core/lower/tile/tile_terms.h"

#include "core/lower/launch/nest_builders.h"

namespace tile::lowering {

using nest::Block;

Block TileTerms::accumulate(const State& s) const {
  Block out;
  if (c_.dot) out.push_back(statement(dots_.dot(s)));
  for (size_t o = 0; o < c_.contraction.outputs.size() && !c_.dot; ++o) {
    Value value;
    NodeId root = values_.translate(value, c_.piece, c_.piece.body.results[o], s, {});
    nest::Store store;
    store.target =
        c_.lanes_reduce ? accumulators_.lane_accumulator(o, s) : accumulators_.accumulator(o, s);
    store.kind = store_kind(c_.contraction.aggregation, c_.contraction.accumulator);
    const Node& top = value.body[root];
    bool product = top.kind == NodeKind::operation && top.op == Op::mul && is_float(top.type) &&
                   top.type == c_.contraction.accumulator;
    if (product && store.kind == nest::StoreKind::add) {
      store.kind = nest::StoreKind::fma;
      value.body.results = top.args;
    } else {
      value.body.results = {value.body.cast(root, c_.contraction.accumulator)};
    }
    settle(store, std::move(value));
    out.push_back(statement(std::move(store)));
  }
  if (c_.may_be_empty) {
    nest::Store some;
    some.target = accumulators_.present(s);
    some.kind = nest::StoreKind::max;
    some.body.results = {some.body.integer(1, DType::i32)};
    out.push_back(statement(std::move(some)));
  }
  return values_.guarded(std::move(out), s, Tested::terms);
}

// As accumulate, for forms whose loops enforce no condition.
Block TileTerms::accumulate_everywhere(const State& s) const {
  std::vector<Expr> tests;
  for (const Constraint& c : c_.piece.constraints) {
    std::vector<Expr> more = values_.conditions_at(c, s);
    tests.insert(tests.end(), more.begin(), more.end());
  }
  State at = s;
  at.guards = Guards::none;
  return only_if(std::move(tests), accumulate(at));
}

// target = target combined with `from`.
nest::Statement TileTerms::combined(nest::Access target, nest::Access from) const {
  nest::Store store;
  store.target = std::move(target);
  store.kind = store_kind(c_.contraction.aggregation, c_.contraction.accumulator);
  store.loads = {std::move(from)};
  store.body.results = {store.body.load(0, c_.contraction.accumulator)};
  return statement(std::move(store));
}

nest::Statement TileTerms::copied(nest::Access target, nest::Access from) const {
  nest::Store store;
  store.target = std::move(target);
  store.loads = {std::move(from)};
  store.body.results = {store.body.load(0, c_.contraction.accumulator)};
  return statement(std::move(store));
}

}  // namespace tile::lowering
