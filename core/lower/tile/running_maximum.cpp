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

using Bounds = std::vector<std::vector<StreamBound>>;

// The streamed axis's values that the rows of a state need, of which there are at most so many.
class NeededValues {
 public:
  // `of`: stream_bounds() or stream_begins().
  using Of = Bounds (*)(const Kernel&, const std::vector<int64_t>&);
  NeededValues(const PieceContext& c, const State& s, std::vector<int64_t> rows)
      : c_(c), s_(s), rows_(std::move(rows)) {}

  // The least value of every list of upper bounds, the largest of these; nothing where there is
  // none.
  std::optional<Expr> last(const Expr& extent) const {
    std::optional<Expr> all;
    of_lists(&stream_bounds, [&](const std::vector<Bound>& list) {
      Expr least = tidy(extent - Expr(1));
      for (const Bound& b : list) {
        if (!is_open() && floor_div(b.least, b.divisor) >= extent.value() - 1) continue;
        least = min(least, floor_div(b.value, Expr(b.divisor)));
      }
      all = all ? max(*all, least) : max(Expr(0), least);
    });
    return all;
  }
  // The largest value of every list of lower bounds, the least of these.
  std::optional<Expr> first() const {
    std::optional<Expr> all;
    of_lists(&stream_begins, [&](const std::vector<Bound>& list) {
      Expr most = 0;
      for (const Bound& b : list) {
        if (!is_open() && b.most <= 0) continue;
        most = max(most, floor_div(tidy(b.value + Expr(b.divisor - 1)), Expr(b.divisor)));
      }
      all = all ? min(*all, most) : most;
    });
    return all;
  }

 private:
  struct Bound {
    Expr value;
    int64_t divisor = 1;
    int64_t least = 0, most = 0;  // of the value, where no launch gives an extent
  };
  bool is_open() const { return c_.frame.extent != nullptr; }
  template <class Take>
  void of_lists(Of of, const Take& take) const {
    const KernelStage& mine = c_.frame.kernel.stages[c_.stage];
    Bounds all = of(c_.frame.kernel, rows_);
    for (size_t i = 0; i < all.size(); ++i) {
      std::vector<Bound> list;
      for (size_t k = 0; k < all[i].size(); ++k) {
        const StreamBound& b = all[i][k];
        Bound bound{constant_of(of, b.constant, i, k), b.divisor, b.constant, b.constant};
        for (size_t r = 0; r < b.rows.size(); ++r) {
          IteratorId u = mine.rows[RowId(r)];
          bound.value = bound.value + Expr(b.rows[r]) * s_.at[u].begin();
          int64_t reach = b.rows[r] * (c_.piece.box[u] - 1);
          (reach < 0 ? bound.least : bound.most) += reach;
        }
        bound.value = tidy(bound.value);
        list.push_back(std::move(bound));
      }
      take(list);
    }
  }
  // The constant of bound number `bound` of list number `list`: it grows evenly with an extent that
  // launches give, so that two extents tell it.
  Expr constant_of(Of of, int64_t at_hand, size_t list, size_t bound) const {
    const Frame& frame = c_.frame;
    if (frame.extent == nullptr) return at_hand;
    auto at = [&](int64_t size) {
      Kernel there = with_size(frame.kernel, *frame.extent, size);
      return of(there, rows_)[list][bound].constant;
    };
    int64_t one = at(1), two = at(2);
    return tidy(Expr(two - one) * Expr::variable(kExtentName) + Expr(2 * one - two));
  }

  const PieceContext& c_;
  const State& s_;
  const std::vector<int64_t> rows_;
};

}  // namespace

std::optional<VisitedBlocks> visited_blocks(const PieceContext& c, size_t outer, const State& s) {
  const Loop& l = c.schedule.outer[outer];
  if (l.iterator != c.frame.kernel.stages[c.stage].stream) return std::nullopt;
  Expr extent = c.extent(l.iterator);
  c.frame.stream_begin = 0;
  c.frame.stream_end = extent;
  NeededValues needed(c, s, c.frame.row_blocks);
  std::optional<Expr> first = needed.first(), last = needed.last(extent);
  if (!first && !last) return std::nullopt;
  VisitedBlocks blocks{0, blocks_in(extent, l.step)};
  if (last) blocks.end = floor_div(*last, Expr(l.step)) + Expr(1);
  // Of rows that need none the last one: sums begin and end in some block.
  if (first) blocks.first = min(floor_div(*first, Expr(l.step)), tidy(blocks.end - Expr(1)));
  c.frame.stream_begin = tidy(Expr(l.step) * blocks.first);
  if (last) c.frame.stream_end = min(extent, Expr(l.step) * blocks.end);
  return blocks;
}

std::optional<VisitedBlocks> needed_tiles(const PieceContext& c, size_t outer, const State& s) {
  const Loop& l = c.schedule.outer[outer];
  const KernelStage& mine = c.frame.kernel.stages[c.stage];
  bool cells = mine.stream.valid() && l.iterator == mine.stream && !reduces_stream(mine);
  if (!cells || c.frame.extent != nullptr || !c.extent(l.iterator).is_constant()) return {};
  std::vector<int64_t> rows;
  bool fewer = false;  // than the block has
  for (RowId r : mine.rows.ids()) {
    const Expr& size = s.at[mine.rows[r]].size;
    if (!size.is_constant()) return std::nullopt;
    rows.push_back(size.value());
    fewer = fewer || rows.back() < c.frame.row_blocks[r];
  }
  if (!fewer) return std::nullopt;
  rows.push_back(c.frame.row_blocks.back());
  NeededValues needed(c, s, std::move(rows));
  std::optional<Expr> first = needed.first(), last = needed.last(c.extent(l.iterator));
  if (!first && !last) return std::nullopt;
  const Position& p = s.at[l.iterator];
  auto tile_of = [&](const Expr& value) {
    return floor_div(tidy(value - p.begin()), Expr(l.step));
  };
  VisitedBlocks tiles{0, blocks_in(p.size, l.step)};
  if (first) tiles.first = min(max(Expr(0), tile_of(*first)), tiles.end);
  if (last) tiles.end = max(tiles.first, min(tiles.end, tidy(tile_of(*last) + Expr(1))));
  return tiles;
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
