// Streamed axes: reductions carried from block to block, a running maximum, and sums that follow
// it.
#include <algorithm>
#include <limits>

#include "core/kernel/stream.h"
#include "core/lower/piece/lowering.h"

namespace tile::lowering {

using nest::Block;

// What a stage has reduced so far, for the rows of a block.
void PieceLowering::make_stream_partials() {
  std::vector<int> rows = shared_iterators(frame_.kernel.stages[stage_]);
  Shape shape;
  for (size_t u = 0; u < piece_.parallel_dims; ++u) {
    auto row = std::find(rows.begin(), rows.end(), static_cast<int>(u)) - rows.begin();
    bool is_row = static_cast<size_t>(row) < rows.size();
    shape.push_back(is_row ? frame_.row_blocks[static_cast<size_t>(row)] : piece_.box[u]);
  }
  if (shape.empty()) shape = {1};
  auto make = [&](const char* name) {
    int id = frame_.add_buffer(name, contraction_.accumulator, nest::Scope::scratch, shape);
    frame_.carried_buffers.push_back(id);
    return id;
  };
  for (size_t o = 0; o < contraction_.outputs.size(); ++o) partials_.push_back(make("partial"));
  if (is_running(frame_.kernel, stage_)) frame_.running[stage_] = {partials_[0], make("factor")};
}

// The cell that the parallel dimensions name, in a buffer of one block.
nest::Access PieceLowering::of_block(int buffer, const State& s) const {
  std::vector<int> rows = shared_iterators(frame_.kernel.stages[stage_]);
  nest::Access a;
  a.buffer = buffer;
  for (size_t u = 0; u < piece_.parallel_dims; ++u) {
    auto row = static_cast<size_t>(std::find(rows.begin(), rows.end(), static_cast<int>(u)) -
                                   rows.begin());
    Expr at = s.at[u].begin();
    a.index.push_back(tidy(row < rows.size() ? at - frame_.row_begin[row] : at));
  }
  if (a.index.empty()) a.index.emplace_back(0);
  return a;
}

// The same of the running maximum that the stage follows, at the stage's row.
nest::Access PieceLowering::of_row(int buffer, const State& s) const {
  const std::vector<KernelStage>& stages = frame_.kernel.stages;
  const KernelStage& mine = stages[stage_];
  const KernelStage& maximum = stages[static_cast<size_t>(mine.rescale)];
  nest::Access a;
  a.buffer = buffer;
  for (size_t u = 0; u < maximum.contraction.pieces[0].parallel_dims; ++u) {
    auto row = static_cast<size_t>(
        std::find(maximum.rows.begin(), maximum.rows.end(), static_cast<int>(u)) -
        maximum.rows.begin());
    if (row == maximum.rows.size()) {
      a.index.emplace_back(0);
      continue;
    }
    Expr at = s.at[static_cast<size_t>(mine.rows[row])].begin();
    a.index.push_back(tidy(at - frame_.row_begin[row]));
  }
  if (a.index.empty()) a.index.emplace_back(0);
  return a;
}

std::optional<Expr> PieceLowering::reached_blocks(size_t outer, const State& s) {
  const Loop& l = schedule_.outer[outer];
  const KernelStage& mine = frame_.kernel.stages[stage_];
  if (!shared_body_.inside || l.iterator != mine.stream) return std::nullopt;
  Expr extent = piece_.box[static_cast<size_t>(l.iterator)];
  frame_.stream_end = extent;
  Expr last = 0;
  auto all = stream_bounds(frame_.kernel, frame_.row_blocks);
  for (const std::vector<StreamBound>& bounds : all) {
    Expr least = tidy(extent - Expr(1));
    for (const StreamBound& b : bounds) {
      Expr value = b.constant;
      for (size_t r = 0; r < b.rows.size(); ++r) {
        value = value + Expr(b.rows[r]) * s.at[static_cast<size_t>(mine.rows[r])].begin();
      }
      least = min(least, floor_div(tidy(value), Expr(b.divisor)));
    }
    last = max(last, least);
  }
  if (all.empty()) return std::nullopt;
  Expr reached = floor_div(last, Expr(l.step)) + Expr(1);
  frame_.stream_end = min(extent, Expr(l.step) * reached);
  return reached;
}

// The sum so far, as a multiple of the exponential of the new maximum.
void PieceLowering::rescale(nest::Store& resumed, const State& s) const {
  int follows = frame_.kernel.stages[stage_].rescale;
  if (follows < 0) return;
  const Contraction& maximum = frame_.kernel.stages[static_cast<size_t>(follows)].contraction;
  resumed.loads.push_back(of_row(frame_.running.at(static_cast<size_t>(follows)).factor, s));
  Body& body = resumed.body;
  NodeId factor = body.cast(body.load(1, maximum.accumulator), contraction_.accumulator);
  body.results = {body.operation(Op::mul, {body.results[0], factor}, contraction_.accumulator)};
}

namespace {

// exp(old - raised); 0 for an old maximum of -inf, where sums are of zeros only.
Body factor_of(DType type) {
  Body body;
  NodeId old = body.load(0, type), raised = body.load(1, type);
  NodeId least = body.real(-std::numeric_limits<double>::infinity(), type);
  NodeId distance = body.operation(Op::sub, {old, raised}, type);
  NodeId none = body.operation(Op::eq, {old, least}, DType::bool_);
  NodeId factor = body.operation(Op::exp, {distance}, type);
  body.results = {body.operation(Op::select, {none, body.real(0, type), factor}, type)};
  return body;
}

}  // namespace

// The end of a tile of the running maximum: the factor of this block, the new maximum, and what is
// made of it.
Block PieceLowering::raise_maximum(const State& s) {
  const Frame::Running& running = frame_.running.at(stage_);
  nest::If choice;
  choice.predicate = first_block(s);
  auto put = [&](int buffer, const State& at, std::vector<nest::Access> loads, Body body) {
    nest::Store store;
    store.target = of_block(buffer, at);
    store.loads = std::move(loads);
    store.body = std::move(body);
    return statement(std::move(store));
  };
  choice.then = tile_loops(0, s, [&](const State& at) {
    Body zero;
    zero.results = {zero.real(0, contraction_.accumulator)};
    return Block{put(running.factor, at, {}, std::move(zero))};
  });
  choice.otherwise = tile_loops(0, s, [&](const State& at) {
    return Block{put(running.factor, at, {of_block(running.maximum, at), accumulator(0, at)},
                     factor_of(contraction_.accumulator))};
  });
  Block out{statement(std::move(choice))};
  append(out, tile_loops(0, s, [&](const State& at) {
           Body raised;
           raised.results = {raised.load(0, contraction_.accumulator)};
           Block all{put(running.maximum, at, {accumulator(0, at)}, std::move(raised))};
           append(all, results(at));
           return all;
         }));
  return out;
}

}  // namespace tile::lowering
