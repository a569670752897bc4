// Streamed axes: reductions carried from block to block, a running maximum, and sums that follow
// it.
#include "core/lower/tile/running_maximum.h"

#include <algorithm>
#include <limits>

#include "core/kernel/stream.h"

namespace tile::lowering {

using nest::Block;

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

namespace {

// The constant of bound number `bound` of list number `list` of stream_bounds(): it grows evenly
// with an extent that launches give, so that two extents tell it.
Expr constant_of(const Frame& frame, int64_t at_hand, size_t list, size_t bound) {
  if (frame.extent == nullptr) return at_hand;
  auto at = [&](int64_t size) {
    Kernel there = with_size(frame.kernel, *frame.extent, size);
    return stream_bounds(there, frame.row_blocks)[list][bound].constant;
  };
  int64_t one = at(1), two = at(2);
  return tidy(Expr(two - one) * Expr::variable(kExtentName) + Expr(2 * one - two));
}

}  // namespace

std::optional<Expr> reached_blocks(const PieceContext& c, size_t outer, const State& s) {
  const Loop& l = c.schedule.outer[outer];
  const KernelStage& mine = c.frame.kernel.stages[c.stage];
  if (l.iterator != mine.stream) return std::nullopt;
  Expr extent = c.extent(l.iterator);
  c.frame.stream_end = extent;
  Expr last = 0;
  auto all = stream_bounds(c.frame.kernel, c.frame.row_blocks);
  for (size_t i = 0; i < all.size(); ++i) {
    Expr least = tidy(extent - Expr(1));
    for (size_t k = 0; k < all[i].size(); ++k) {
      const StreamBound& b = all[i][k];
      Expr value = constant_of(c.frame, b.constant, i, k);
      for (size_t r = 0; r < b.rows.size(); ++r) {
        value = value + Expr(b.rows[r]) * s.at[mine.rows[r]].begin();
      }
      least = min(least, floor_div(tidy(value), Expr(b.divisor)));
    }
    last = max(last, least);
  }
  if (all.empty()) return std::nullopt;
  Expr reached = floor_div(last, Expr(l.step)) + Expr(1);
  c.frame.stream_end = min(extent, Expr(l.step) * reached);
  return reached;
}

// The end of a tile of the running maximum: the factor of this block, the new maximum, and what is
// made of it.
Block RunningMaximum::raise(const State& s) {
  const Frame::Running& running = c_.frame.running.at(StageId(c_.stage));
  nest::If choice;
  choice.predicate = partials_.first_block(s);
  auto put = [&](nest::BufferId buffer, const State& at, std::vector<nest::Access> loads,
                 Body body) {
    nest::Store store;
    store.target = partials_.of_block(buffer, at);
    store.loads = std::move(loads);
    store.body = std::move(body);
    return statement(std::move(store));
  };
  choice.then = tile_loops(c_, s, [&](const State& at) {
    Body zero;
    zero.results = {zero.real(0, c_.contraction.accumulator)};
    return Block{put(running.factor, at, {}, std::move(zero))};
  });
  choice.otherwise = tile_loops(c_, s, [&](const State& at) {
    return Block{put(running.factor, at,
                     {partials_.of_block(running.maximum, at), accumulators_.accumulator(0, at)},
                     factor_of(c_.contraction.accumulator))};
  });
  Block out{statement(std::move(choice))};
  append(
      out, tile_loops(c_, s, [&](const State& at) {
        Body raised;
        raised.results = {raised.load(0, c_.contraction.accumulator)};
        Block all{put(running.maximum, at, {accumulators_.accumulator(0, at)}, std::move(raised))};
        append(all, results_.results(at));
        return all;
      }));
  return out;
}

}  // namespace tile::lowering
