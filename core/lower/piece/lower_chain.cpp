// One long row that threads scan in turns, each a tile of cells: a turn adds up its values, which
// brings them near; adds that to what the turns before have; and scans its cells, starting from
// there. In the nest these are three loops over the turns. A backend may run each turn's part of
// the second as soon as its part of the first and the turn before are done, and its part of the
// third right behind it, so that the values come from memory once.
#include "core/lower/piece/lowering.h"

namespace tile::lowering {
namespace {

using nest::Block;

constexpr const char* kTask = "task";

Expr turn() { return Expr::variable(kTask); }

nest::Access at_index(int buffer, Expr index) {
  nest::Access a;
  a.buffer = buffer;
  a.index.push_back(std::move(index));
  return a;
}

nest::Store taken(nest::Access target, nest::StoreKind kind, nest::Access from, DType type) {
  nest::Store store;
  store.target = std::move(target);
  store.kind = kind;
  store.loads = {std::move(from)};
  store.body.results = {store.body.load(0, type)};
  return store;
}

// Every lane's own element of a buffer that has the shape of the whole tile.
State each_lane(State s) {
  s.carried_index = 0;
  return s;
}

}  // namespace

PieceLowering::Chain PieceLowering::make_chain(const ScanForm& form) {
  Chain chain;
  chain.tile = schedule_.outer.front().step;
  chain.tiles = ceil_div(piece_.box[form.parallel_dim], chain.tile);
  chain.turn = whole_box();
  chain.turn.guards = Guards::none;
  for (size_t u = 0; u < piece_.parallel_dims; ++u) {
    chain.turn.at[u].levels = {{1, 0}};
    chain.turn.at[u].size = 1;
  }
  Position& row = chain.turn.at[form.parallel_dim];
  row.levels = {{chain.tile, turn()}};
  row.size = schedule_.outer.back().step;
  for (size_t o = 0; o < contraction_.outputs.size(); ++o) {
    DType type = contraction_.accumulator;
    chain.sums.push_back(register_buffer("sums", type, tile_shape_));
    chain.totals.push_back(
        frame_.add_buffer("totals", type, nest::Scope::workspace, {chain.tiles - 1}));
    chain.before.push_back(
        frame_.add_buffer("before", type, nest::Scope::workspace, {chain.tiles}));
  }
  return chain;
}

// Of each turn but the last.
Block PieceLowering::chain_totals(const ScanForm& form, const Chain& chain) {
  DType type = contraction_.accumulator;
  std::vector<int> running = accumulators_;
  nest::For loop = make_loop(kTask, 0, chain.tiles - 1, nest::LoopKind::parallel);
  loop.grain = grain_of(chain.tiles);
  Block& body = loop.body;
  for (int& total : accumulators_) total = register_buffer("total", type, {1});
  std::vector<int> totals = accumulators_;
  for (size_t o = 0; o < totals.size(); ++o) {
    body.push_back({nest::Alloc{chain.sums[o]}});
    body.push_back({nest::Alloc{totals[o]}});
  }
  accumulators_ = chain.sums;
  auto over_outputs = [&](const std::function<nest::Store(size_t)>& make) {
    Block out;
    for (size_t o = 0; o < totals.size(); ++o) out.push_back(statement(make(o)));
    return out;
  };
  append(
      body, tile_loops(0, chain.turn, [&](const State& p) {
        return over_outputs([&](size_t o) { return neutral_store(accumulator(o, each_lane(p))); });
      }));
  append(
      body,
      in_vectors(names_[form.parallel_dim] + "_next", chain.tile, chain.turn, [&](const State& p) {
        Expr step = tidy(p.at[form.parallel_dim].begin());
        return next_value(form, step, each_lane(p), [&](const State& q) { return accumulate(q); });
      }));
  append(body, over_outputs([&](size_t o) { return neutral_store(at_index(totals[o], 0)); }));
  append(body, tile_loops(0, chain.turn, [&](const State& p) {
           return over_outputs([&](size_t o) {
             return taken(at_index(totals[o], 0), store_kind(contraction_.aggregation, type),
                          accumulator(o, each_lane(p)), type);
           });
         }));
  append(body, over_outputs([&](size_t o) {
           return taken(at_index(chain.totals[o], turn()), nest::StoreKind::assign,
                        at_index(totals[o], 0), type);
         }));
  accumulators_ = running;
  return {statement(std::move(loop))};
}

Block PieceLowering::chain_links(const Chain& chain) const {
  DType type = contraction_.accumulator;
  nest::For loop = make_loop("link", 0, chain.tiles - 1, nest::LoopKind::serial);
  Expr link = Expr::variable("link");
  Block out;
  for (size_t o = 0; o < chain.totals.size(); ++o) {
    out.push_back(statement(neutral_store(at_index(chain.before[o], 0))));
    nest::Access next = at_index(chain.before[o], link + 1);
    loop.body.push_back(
        statement(taken(next, nest::StoreKind::assign, at_index(chain.before[o], link), type)));
    loop.body.push_back(statement(taken(next, store_kind(contraction_.aggregation, type),
                                        at_index(chain.totals[o], link), type)));
  }
  out.push_back(statement(std::move(loop)));
  return out;
}

Block PieceLowering::chain_cells(const ScanForm& form, const Chain& chain) {
  nest::For loop = make_loop(kTask, 0, chain.tiles, nest::LoopKind::parallel);
  loop.grain = grain_of(chain.tiles);
  loop.body = allocations();
  for (size_t o = 0; o < accumulators_.size(); ++o) {
    loop.body.push_back(
        statement(taken(at_index(accumulators_[o], 0), nest::StoreKind::assign,
                        at_index(chain.before[o], turn()), contraction_.accumulator)));
  }
  int64_t rest = piece_.box[form.parallel_dim] - (chain.tiles - 1) * chain.tile;
  auto some = [&](int64_t cells) {
    return in_vectors(names_[form.parallel_dim] + "_next", cells, chain.turn, next_cells(form));
  };
  if (rest == chain.tile) {
    append(loop.body, some(rest));
  } else {
    nest::If whole;
    whole.nonnegative = {tidy(Expr(chain.tiles - 2) - turn())};
    whole.then = some(chain.tile);
    whole.otherwise = some(rest);
    loop.body.push_back(statement(std::move(whole)));
  }
  return {statement(std::move(loop))};
}

Block PieceLowering::chained_scan() {
  ScanForm form = *scan_form(piece_, contraction_);
  Chain chain = make_chain(form);
  Block links = chain_links(chain), out;
  for (const std::vector<int>* made : {&chain.totals, &chain.before}) {
    for (int id : *made) out.push_back({nest::Alloc{id}});
  }
  // What starts the chain goes first: the three loops stand side by side.
  std::move(links.begin(), std::prev(links.end()), std::back_inserter(out));
  append(out, chain_totals(form, chain));
  out.push_back(std::move(links.back()));
  append(out, chain_cells(form, chain));
  return out;
}

}  // namespace tile::lowering
