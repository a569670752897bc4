// A scan of one long row by threads in turns.
#include "core/lower/tile/chained_scan_lowering.h"

#include <iterator>

namespace tile::lowering {

namespace {

using nest::Block;

constexpr const char* kTask = "task";

Expr turn() { return Expr::variable(kTask); }

nest::Access at_index(nest::BufferId buffer, Expr index) {
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

ChainedScanLowering::Chain ChainedScanLowering::make_chain(const ScanForm& form) const {
  Chain chain;
  chain.tile = c_.schedule.outer.front().step;
  chain.tiles = ceil_div(c_.piece.box[form.parallel_dim], chain.tile);
  chain.turn = c_.whole_box();
  chain.turn.guards = Guards::none;
  for (size_t u = 0; u < c_.piece.parallel_dims; ++u) {
    chain.turn.at[u].levels = {{1, 0}};
    chain.turn.at[u].size = 1;
  }
  Position& row = chain.turn.at[form.parallel_dim];
  row.levels = {{chain.tile, turn()}};
  row.size = c_.schedule.outer.back().step;
  for (size_t o = 0; o < c_.contraction.outputs.size(); ++o) {
    DType type = c_.contraction.accumulator;
    chain.sums.push_back(accumulators_.register_buffer("sums", type, c_.tile_shape));
    chain.totals.push_back(
        c_.frame.add_buffer("totals", type, nest::Scope::workspace, {chain.tiles - 1}));
    chain.before.push_back(
        c_.frame.add_buffer("before", type, nest::Scope::workspace, {chain.tiles}));
  }
  return chain;
}

// Of each turn but the last.
Block ChainedScanLowering::chain_totals(const ScanForm& form, const Chain& chain) {
  DType type = c_.contraction.accumulator;
  std::vector<nest::BufferId> running = accumulators_.buffers();
  nest::For loop = make_loop(kTask, 0, chain.tiles - 1, nest::LoopKind::parallel);
  loop.grain = c_.grain_of(chain.tiles);
  Block& body = loop.body;
  std::vector<nest::BufferId> totals;
  for (size_t o = 0; o < running.size(); ++o) {
    totals.push_back(accumulators_.register_buffer("total", type, {1}));
  }
  for (size_t o = 0; o < totals.size(); ++o) {
    body.push_back({nest::Alloc{chain.sums[o]}});
    body.push_back({nest::Alloc{totals[o]}});
  }
  accumulators_.use(chain.sums);
  auto over_outputs = [&](const std::function<nest::Store(size_t)>& make) {
    Block out;
    for (size_t o = 0; o < totals.size(); ++o) out.push_back(statement(make(o)));
    return out;
  };
  append(body, tile_loops(c_, chain.turn, [&](const State& p) {
           return over_outputs([&](size_t o) {
             return accumulators_.neutral_store(accumulators_.accumulator(o, each_lane(p)));
           });
         }));
  append(body, in_vectors(c_, c_.names[form.parallel_dim] + "_next", chain.tile, chain.turn,
                          [&](const State& p) {
                            Expr step = tidy(p.at[form.parallel_dim].begin());
                            return scan_.next_value(form, step, each_lane(p), [&](const State& q) {
                              return terms_.accumulate(q);
                            });
                          }));
  append(body, over_outputs(
                   [&](size_t o) { return accumulators_.neutral_store(at_index(totals[o], 0)); }));
  append(body, tile_loops(c_, chain.turn, [&](const State& p) {
           return over_outputs([&](size_t o) {
             return taken(at_index(totals[o], 0), store_kind(c_.contraction.aggregation, type),
                          accumulators_.accumulator(o, each_lane(p)), type);
           });
         }));
  append(body, over_outputs([&](size_t o) {
           return taken(at_index(chain.totals[o], turn()), nest::StoreKind::assign,
                        at_index(totals[o], 0), type);
         }));
  accumulators_.use(running);
  return {statement(std::move(loop))};
}

Block ChainedScanLowering::chain_links(const Chain& chain) const {
  DType type = c_.contraction.accumulator;
  nest::For loop = make_loop("link", 0, chain.tiles - 1, nest::LoopKind::serial);
  Expr link = Expr::variable("link");
  Block out;
  for (size_t o = 0; o < chain.totals.size(); ++o) {
    out.push_back(statement(accumulators_.neutral_store(at_index(chain.before[o], 0))));
    nest::Access next = at_index(chain.before[o], link + 1);
    loop.body.push_back(
        statement(taken(next, nest::StoreKind::assign, at_index(chain.before[o], link), type)));
    loop.body.push_back(statement(taken(next, store_kind(c_.contraction.aggregation, type),
                                        at_index(chain.totals[o], link), type)));
  }
  out.push_back(statement(std::move(loop)));
  return out;
}

Block ChainedScanLowering::chain_cells(const ScanForm& form, const Chain& chain) {
  nest::For loop = make_loop(kTask, 0, chain.tiles, nest::LoopKind::parallel);
  loop.grain = c_.grain_of(chain.tiles);
  loop.body = results_.allocations();
  for (size_t o = 0; o < accumulators_.buffers().size(); ++o) {
    loop.body.push_back(
        statement(taken(at_index(accumulators_.buffers()[o], 0), nest::StoreKind::assign,
                        at_index(chain.before[o], turn()), c_.contraction.accumulator)));
  }
  int64_t rest = c_.piece.box[form.parallel_dim] - (chain.tiles - 1) * chain.tile;
  auto some = [&](int64_t cells) {
    return in_vectors(c_, c_.names[form.parallel_dim] + "_next", cells, chain.turn,
                      scan_.next_cells(form));
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

Block ChainedScanLowering::chained_scan() {
  ScanForm form = *scan_form(c_.piece, c_.contraction);
  Chain chain = make_chain(form);
  Block links = chain_links(chain), out;
  for (const std::vector<nest::BufferId>* made : {&chain.totals, &chain.before}) {
    for (nest::BufferId id : *made) out.push_back({nest::Alloc{id}});
  }
  // What starts the chain goes first: the three loops stand side by side.
  std::move(links.begin(), std::prev(links.end()), std::back_inserter(out));
  append(out, chain_totals(form, chain));
  out.push_back(std::move(links.back()));
  append(out, chain_cells(form, chain));
  return out;
}

}  // namespace tile::lowering
