// Blocked reductions: the sums of the blocks so far wait in the output, or in a workspace of the
// accumulator's type where the output's is another.
#include "core/lower/tile/partial_sums.h"

#include <algorithm>

#include "core/kernel/rows.h"
#include "core/kernel/stream.h"

namespace tile::lowering {

using nest::Block;

namespace {

// The condition is 1 or 0.
Body holds(const Expr& condition, Op than_zero = Op::ne) {
  Body body;
  NodeId value = body.size(condition, DType::i64);
  NodeId zero = body.integer(0, DType::i64);
  body.results = {body.operation(than_zero, {value, zero}, DType::bool_)};
  return body;
}

}  // namespace

void PartialSums::make(nest::Block& out) {
  if (!c_.blocked) return;
  if (has_stream(c_.frame.kernel)) return make_stream_partials();
  for (TensorId tensor : c_.contraction.outputs) {
    bool stored = c_.frame.buffer_of.contains(tensor);
    if (stored && c_.frame.tensor(tensor).type == c_.contraction.accumulator) {
      partials_.emplace_back();
      continue;
    }
    Shape shape;
    for (size_t u = 0; u < c_.piece.parallel_dims; ++u) shape.push_back(c_.most(IteratorId(u)));
    if (shape.empty()) shape = {1};
    nest::BufferId id =
        c_.frame.add_buffer("partial", c_.contraction.accumulator, nest::Scope::workspace, shape);
    partials_.push_back(id);
    out.push_back({nest::Alloc{id}});
  }
}

// What a stage has reduced so far, for the rows of a block.
void PartialSums::make_stream_partials() {
  IdVector<RowId, IteratorId> rows = shared_iterators(c_.frame.kernel.stages[c_.stage]);
  Shape shape;
  for (size_t u = 0; u < c_.piece.parallel_dims; ++u) {
    RowId row = row_of(rows, IteratorId(u));
    shape.push_back(row.valid() ? c_.frame.row_blocks[row] : c_.most(IteratorId(u)));
  }
  if (shape.empty()) shape = {1};
  auto make = [&](const char* name) {
    nest::BufferId id =
        c_.frame.add_buffer(name, c_.contraction.accumulator, nest::Scope::scratch, shape);
    c_.frame.carried_buffers.push_back(id);
    return id;
  };
  for (size_t o = 0; o < c_.contraction.outputs.size(); ++o) partials_.push_back(make("partial"));
  if (is_running(c_.frame.kernel, c_.stage))
    c_.frame.running[StageId(c_.stage)] = {partials_[0], make("factor")};
}

nest::Access PartialSums::partial(size_t output, const State& s) const {
  if (!partials_[output].valid()) return values_.output_access(output, s);
  if (has_stream(c_.frame.kernel)) return of_block(partials_[output], s);
  nest::Access a;
  a.buffer = partials_[output];
  for (size_t u = 0; u < c_.piece.parallel_dims; ++u) a.index.push_back(tidy(s.at[u].begin()));
  if (a.index.empty()) a.index.emplace_back(0);
  return a;
}

// The cell that the parallel dimensions name, in a buffer of one block.
nest::Access PartialSums::of_block(nest::BufferId buffer, const State& s) const {
  IdVector<RowId, IteratorId> rows = shared_iterators(c_.frame.kernel.stages[c_.stage]);
  nest::Access a;
  a.buffer = buffer;
  for (size_t u = 0; u < c_.piece.parallel_dims; ++u) {
    RowId row = row_of(rows, IteratorId(u));
    Expr at = s.at[u].begin();
    a.index.push_back(tidy(row.valid() ? at - c_.frame.row_begin[row] : at));
  }
  if (a.index.empty()) a.index.emplace_back(0);
  return a;
}

// The same of the running maximum that the stage follows, at the stage's row.
nest::Access PartialSums::of_row(nest::BufferId buffer, const State& s) const {
  const IdVector<StageId, KernelStage>& stages = c_.frame.kernel.stages;
  const KernelStage& mine = stages[c_.stage];
  const KernelStage& maximum = stages[mine.rescale];
  nest::Access a;
  a.buffer = buffer;
  for (size_t u = 0; u < maximum.contraction.pieces[0].parallel_dims; ++u) {
    RowId row = row_of(maximum.rows, IteratorId(u));
    if (!row.valid()) {
      a.index.emplace_back(0);
      continue;
    }
    Expr at = s.at[mine.rows[row]].begin();
    a.index.push_back(tidy(at - c_.frame.row_begin[row]));
  }
  if (a.index.empty()) a.index.emplace_back(0);
  return a;
}

// The sum so far, as a multiple of the exponential of the new maximum.
void PartialSums::rescale(nest::Store& resumed, const State& s) const {
  StageId follows = c_.frame.kernel.stages[c_.stage].rescale;
  if (!follows.valid()) return;
  const Contraction& maximum = c_.frame.kernel.stages[follows].contraction;
  resumed.loads.push_back(of_row(c_.frame.running.at(follows).factor, s));
  Body& body = resumed.body;
  NodeId factor = body.cast(body.load(1, maximum.accumulator), c_.contraction.accumulator);
  body.results = {body.operation(Op::mul, {body.results[0], factor}, c_.contraction.accumulator)};
}

Expr PartialSums::in_first_block(const State& s) const {
  Expr all = 1;
  for (size_t u = c_.piece.parallel_dims; u < c_.piece.box.size(); ++u) {
    if (s.at[u].levels.empty()) continue;
    bool streamed = IteratorId(u) == c_.frame.kernel.stages[c_.stage].stream;
    Expr first = streamed ? c_.frame.stream_begin : Expr(0);
    all = all * equal(tidy(s.at[u].begin()), first);
  }
  return all;
}

Body PartialSums::first_block(const State& s) const { return holds(in_first_block(s)); }

Body PartialSums::last_block(const State& s) const {
  Expr all = 1;
  for (size_t u = c_.piece.parallel_dims; u < c_.piece.box.size(); ++u) {
    if (s.at[u].levels.empty()) continue;
    Expr next = tidy(s.at[u].begin() + Expr(s.at[u].levels.back().step));
    bool streamed = IteratorId(u) == c_.frame.kernel.stages[c_.stage].stream;
    Expr last =
        streamed ? tidy(c_.frame.stream_end - Expr(1)) : tidy(c_.extent(IteratorId(u)) - Expr(1));
    all = all * less(last, next);
  }
  return holds(all);
}

// A cell at the sums of the blocks before.
Block PartialSums::resumed(const State& at) const {
  Block out;
  for (size_t o = 0; o < c_.contraction.outputs.size(); ++o) {
    nest::Store first = accumulators_.neutral_store(accumulators_.accumulator(o, at)), again;
    again.target = first.target;
    again.loads = {partial(o, at)};
    again.body.results = {again.body.load(0, c_.contraction.accumulator)};
    rescale(again, at);
    Block sums{statement(std::move(again))};
    Block valid = values_.guarded(sums, at, Tested::cells);
    // A cell outside the domain has no partial sum: its index may be outside the output.
    bool everywhere = std::holds_alternative<nest::Store>(valid.front().what);
    if (!everywhere) out.push_back(statement(std::move(first)));
    append(out, std::move(valid));
  }
  return out;
}

// A cell's sums, until the next block.
Block PartialSums::kept(const State& at) const {
  Block out;
  for (size_t o = 0; o < c_.contraction.outputs.size(); ++o) {
    nest::Store store;
    store.target = partial(o, at);
    store.loads = {accumulators_.accumulator(o, at)};
    store.body.results = {store.body.load(0, c_.contraction.accumulator)};
    out.push_back(statement(std::move(store)));
  }
  return values_.guarded(std::move(out), at, Tested::cells);
}

// The start of one cell.
Block PartialSums::started(const State& at, bool resume) const {
  Block out;
  if (resume) out = resumed(at);
  for (size_t o = 0; o < c_.contraction.outputs.size() && !resume; ++o) {
    out.push_back(statement(accumulators_.neutral_store(accumulators_.accumulator(o, at))));
  }
  if (c_.may_be_empty) {
    nest::Store none;
    none.target = accumulators_.present(at);
    none.body.results = {none.body.integer(0, DType::i32)};
    out.push_back(statement(std::move(none)));
  }
  return out;
}

// Roundings of a sum grow with its terms, those of blocks that are summed apart with a block's. Not
// where sums so far are rescaled.
bool PartialSums::sums_apart() const {
  return c_.blocked && c_.contraction.aggregation == Aggregation::sum &&
         is_float(c_.contraction.accumulator) && !c_.schedule.carried.valid() &&
         !has_stream(c_.frame.kernel);
}

// A cell's sums of this block, and those of the blocks before.
Block PartialSums::joined(const State& at) const {
  Block out;
  for (size_t o = 0; o < c_.contraction.outputs.size(); ++o) {
    nest::Store store;
    store.target = accumulators_.accumulator(o, at);
    store.kind = nest::StoreKind::add;
    store.loads = {partial(o, at)};
    store.body.results = {store.body.load(0, c_.contraction.accumulator)};
    out.push_back(statement(std::move(store)));
  }
  return values_.guarded(std::move(out), at, Tested::cells);
}

Block PartialSums::join(const State& s) const {
  if (!sums_apart()) return {};
  nest::If later;
  later.predicate = holds(in_first_block(s), Op::eq);
  later.then = tile_loops(c_, s, [&](const State& at) { return joined(at); });
  return {statement(std::move(later))};
}

Block PartialSums::initialise(const State& s) const {
  auto tiles = [&](bool resume) {
    return tile_loops(c_, s, [&](const State& at) { return started(at, resume); });
  };
  Block out;
  if (c_.blocked && !sums_apart()) {
    nest::If choice;
    choice.predicate = first_block(s);
    choice.then = tiles(false);
    choice.otherwise = tiles(true);
    out.push_back(statement(std::move(choice)));
  } else {
    out = tiles(false);
  }
  append(out, accumulators_.initialise_copies(s));
  return out;
}

}  // namespace tile::lowering
