// Nests of products on tensor cores: a grid of tiles, a pipeline of copies and matrix tiles, and
// the stages attached to the product on the finished fragment.
#include <algorithm>

#include "core/kernel/forms/tensor_core_gemm.h"
#include "core/lower/gpu/definitions.h"
#include "core/lower/gpu/gpu_lowering.h"
#include "core/lower/gpu/spread_lowering.h"
#include "core/schedule/legality/tensor_core_gemm_legality.h"
#include "core/support/checked.h"

namespace tile::lowering {

using nest::Block;
using nest::LoopKind;
using tensor_cores::Operand;
using tensor_cores::Product;

namespace {

// Of the launch that adds up parts of tiles: threads of a block, and neighbours that one takes.
constexpr int64_t kCombiningThreads = 256, kCombinedCells = 4;

}  // namespace

class TensorCoreLowering : PieceForm {
 public:
  TensorCoreLowering(TileParts& parts, const TensorCoreGemm& schedule, Product product)
      : PieceForm(parts), spread_(parts), schedule_(schedule), p_(std::move(product)) {
    rows_ = tile_rows(schedule, p_);
    columns_ = tile_columns(schedule, p_);
    sum_ = add("sum", p_.sum, nest::Scope::fragment, rows_, columns_);
    a_ = p_.a.k_inside ? add("a", p_.a.type, nest::Scope::shared, rows_, p_.depth)
                       : add("a", p_.a.type, nest::Scope::shared, p_.depth, rows_);
    b_ = p_.b.k_inside ? add("b", p_.b.type, nest::Scope::shared, columns_, p_.depth)
                       : add("b", p_.b.type, nest::Scope::shared, p_.depth, columns_);
    if (!p_.split || !p_.bulk) return;
    a_rest_ = add("a_rest", p_.a.type, nest::Scope::shared, rows_, p_.depth);
    b_rest_ = add("b_rest", p_.b.type, nest::Scope::shared, columns_, p_.depth);
  }

  Block run() {
    State s;
    s.at.resize(box().size());
    Block launches;
    parallel_dims_ = gpu::flat_parallel_dims(c_.piece, c_.frame.kernel);
    parts_ = spread_.split_buffers(schedule_.split, parallel_dims_.count, launches);
    if (schedule_.stream_k > 1) make_stream_k(launches);
    Definitions tile("tile");
    int64_t blocks = place_block(s, tile);
    Block inside{{nest::Alloc{a_}}, {nest::Alloc{b_}}, {nest::Alloc{sum_}}};
    if (a_rest_.valid()) append(inside, {{nest::Alloc{a_rest_}}, {nest::Alloc{b_rest_}}});
    append(inside, cells([&](const Expr& row, const Expr& column) { return clear(row, column); }));
    inside.push_back(statement(steps(s)));
    Block finished =
        cells([&](const Expr& row, const Expr& column) { return finish(s, row, column); });
    append(inside,
           schedule_.stream_k > 1 ? whole_or_part(std::move(finished)) : std::move(finished));
    nest::For grid = make_loop("tile", 0, blocks, LoopKind::grid);
    grid.body = tile.around(std::move(inside));
    launches.push_back(statement(std::move(grid)));
    if (schedule_.stream_k > 1) append(launches, combine_cut_tiles());
    if (parts_.empty()) return launches;
    append(launches, spread_.combine_parts(parallel_dims_, parts_, schedule_.split));
    return launches;
  }

 private:
  const IterationBox& box() const { return c_.piece.box; }
  int64_t box(IteratorId u) const { return box()[u]; }
  int64_t tile(IteratorId u) const { return schedule_.tile[u]; }
  nest::BufferId add(const char* name, DType type, nest::Scope scope, int64_t rows,
                     int64_t columns) {
    return c_.frame.add_buffer(name, type, scope, {rows, columns});
  }
  std::vector<int64_t> counts(const std::vector<IteratorId>& iterators) const {
    std::vector<int64_t> result;
    for (IteratorId u : iterators) result.push_back(ceil_div(box(u), tile(u)));
    return result;
  }
  static int64_t product(const std::vector<int64_t>& factors) {
    int64_t all = 1;
    for (int64_t f : factors) all = checked_mul(all, f);
    return all;
  }
  void enter(State& s, const std::vector<IteratorId>& iterators,
             const std::vector<Expr>& values) const {
    for (size_t i = 0; i < iterators.size(); ++i) {
      s.at[iterators[i]].levels.push_back({tile(iterators[i]), values[i]});
    }
  }

  // The tile that a turn of the grid takes and which of its steps; gives the number of turns.
  int64_t place_block(State& s, Definitions& d) {
    int64_t tiles = tile_count(schedule_, p_), each = ceil_div(p_.steps, schedule_.split);
    Expr at = Expr::variable("tile");
    count_ = each;
    if (schedule_.split > 1) {
      part_ = d.define(floor_div(at, Expr(tiles)));
      at = d.define(floor_mod(at, Expr(tiles)));
      first_ = tidy(Expr(each) * part_);
      if (p_.steps % each != 0) count_ = min(count_, tidy(Expr(p_.steps) - first_));
    }
    if (schedule_.stream_k > 1) at = place_share(at, d);
    place_tile(s, d, at);
    return schedule_.stream_k > 1 ? whole_ + 2 * schedule_.stream_k : schedule_.split * tiles;
  }

  void make_stream_k(Block& out) {
    cut_ = cut_tiles(schedule_, p_);
    whole_ = tile_count(schedule_, p_) - cut_;
    shares_ = c_.frame.add_buffer("parts", p_.sum, nest::Scope::workspace,
                                  {2 * schedule_.stream_k, rows_, columns_});
    out.push_back({nest::Alloc{shares_}});
  }
  // Steps of the cut tiles, one tile behind the other, before those of a block.
  Expr share_begin(const Expr& block) const {
    return floor_div(tidy(Expr(checked_mul(cut_, p_.steps)) * block), Expr(schedule_.stream_k));
  }
  // The block that has a step of the cut tiles.
  Expr share_of(const Expr& step) const {
    Expr place = tidy(Expr(schedule_.stream_k) * (step + Expr(1)) - Expr(1));
    return floor_div(place, Expr(checked_mul(cut_, p_.steps)));
  }

  // Turns of a stream: whole tiles, what each block has of its first cut tile, and what it has of
  // the next, often nothing.
  Expr place_share(const Expr& at, Definitions& d) {
    Expr steps = p_.steps;
    turn_ = d.define(max(Expr(0), tidy(at - Expr(whole_))));
    Expr block = d.define(floor_mod(turn_, Expr(schedule_.stream_k)));
    Expr begin = d.define(share_begin(block)), end = d.define(share_begin(tidy(block + Expr(1))));
    Expr first = d.define(floor_div(begin, steps));
    Expr tile = tidy(first + d.define(floor_div(turn_, Expr(schedule_.stream_k))));
    first_ = d.define(max(Expr(0), tidy(begin - steps * tile)));
    Expr all = tidy(steps * (Expr(whole_) - at));  // positive where the tile is whole
    Expr last = d.define(min(steps, max(tidy(end - steps * tile), all)));
    count_ = tidy(last - first_);
    return tidy(d.define(min(at, Expr(whole_))) + tile);
  }

  Block whole_or_part(Block finished) const {
    Expr at = Expr::variable("tile");
    nest::If whole, part;
    whole.nonnegative = {tidy(Expr(whole_ - 1) - at)};
    whole.then = std::move(finished);
    part.nonnegative = {tidy(at - Expr(whole_)), tidy(count_ - Expr(1))};
    part.then = cells([&](const Expr& row, const Expr& column) {
      State cell;
      cell.tile_index = {row, column};
      return Block{
          terms_.copied({shares_, {turn_, row, column}, {}}, accumulators_.accumulator(0, cell))};
    });
    return {statement(std::move(whole)), statement(std::move(part))};
  }

  // The second launch of a stream: a cell's parts are added in the order of their steps.
  Block combine_cut_tiles() {
    spread_.cells_of_a_thread(kCombinedCells);
    Spread p;
    p.count = checked_mul(cut_, rows_ * columns_);
    p.cells = kCombinedCells;
    p.parallel_dims = kCombiningThreads;
    p.parallel_dims_fastest = true;
    auto reduce = [&](const Expr&, const Expr& group, const Expr&) {
      Definitions d("cut");
      return add_parts(cut_cells(group, d), d);
    };
    auto complete = [&](const Expr&, const Expr& group, const Expr&) {
      Definitions d("cut");
      CutCells cells = cut_cells(group, d);
      State s;
      s.at.resize(box().size());
      place_tile(s, d, tidy(Expr(whole_) + cells.tile));
      return d.around(vector_lanes("cell", kCombinedCells, [&](const Expr& v) {
        s.tile_index = {v};
        return finish(s, cells.row, tidy(cells.column + v));
      }));
    };
    return spread_.spread_launch(p, "combine", reduce, complete);
  }

  // Neighbours in a cut tile, the first one's column.
  struct CutCells {
    Expr tile, row, column;
  };
  CutCells cut_cells(const Expr& group, Definitions& d) const {
    Expr across = columns_ / kCombinedCells, all = rows_ * columns_ / kCombinedCells;
    Expr in_tile = d.define(floor_mod(group, all));
    return {d.define(floor_div(group, all)), d.define(floor_div(in_tile, across)),
            tidy(Expr(kCombinedCells) * d.define(floor_mod(in_tile, across)))};
  }
  Block add_parts(const CutCells& cells, Definitions& d) const {
    Expr begin = tidy(Expr(p_.steps) * cells.tile);
    Expr first = d.define(share_of(begin));
    Expr last = d.define(share_of(tidy(begin + Expr(p_.steps - 1))));
    nest::For loop = make_loop("share", 0, tidy(last - first + Expr(1)), LoopKind::serial);
    Definitions inside("share");
    Expr block = tidy(first + Expr::variable("share"));
    Expr begun = inside.define(floor_div(inside.define(share_begin(block)), Expr(p_.steps)));
    Expr turn = tidy(block + Expr(schedule_.stream_k) * (cells.tile - begun));
    loop.body = inside.around(vector_lanes("cell", kCombinedCells, [&](const Expr& v) {
      State s;
      s.tile_index = {v};
      nest::Access part{shares_, {turn, cells.row, tidy(cells.column + v)}, {}};
      return Block{terms_.combined(accumulators_.accumulator(0, s), std::move(part))};
    }));
    return d.around({statement(std::move(loop))});
  }

  // Groups of neighbouring rows of tiles are walked column by column: what a wave of tiles reads
  // stays in the cache.
  void place_tile(State& s, Definitions& d, const Expr& at) const {
    std::vector<int64_t> rows = counts(p_.a.iterators), columns = counts(p_.b.iterators);
    std::vector<int64_t> batches = counts(p_.batch);
    int64_t down = product(rows), across = product(columns), all = checked_mul(down, across);
    Expr in_batch = at;
    if (product(batches) > 1) {
      enter(s, p_.batch, d.digits(d.define(floor_div(at, Expr(all))), batches));
      in_batch = d.define(floor_mod(at, Expr(all)));
    } else {
      enter(s, p_.batch, std::vector<Expr>(p_.batch.size(), Expr(0)));
    }
    int64_t group = std::min(schedule_.group, down);
    Expr band = d.define(floor_div(in_batch, Expr(checked_mul(group, across))));
    Expr in_band = d.define(floor_mod(in_batch, Expr(checked_mul(group, across))));
    Expr height = group;
    if (down % group != 0)
      height = d.define(min(Expr(group), tidy(Expr(down) - Expr(group) * band)));
    Expr row = tidy(Expr(group) * band + d.define(floor_mod(in_band, height)));
    Expr column = d.define(floor_div(in_band, height));
    enter(s, p_.a.iterators, d.digits(row, rows));
    enter(s, p_.b.iterators, d.digits(column, columns));
  }

  nest::For steps(State s) const {
    Definitions d("step");
    std::vector<IteratorId> iterators = p_.around;
    iterators.insert(iterators.end(), p_.k.begin(), p_.k.end());
    std::vector<int64_t> extents = counts(iterators);
    enter(s, iterators, d.digits(tidy(first_ + Expr::variable("step")), extents));
    nest::For loop = make_loop("step", 0, count_, LoopKind::serial);
    loop.pipeline = schedule_.stages;
    loop.cluster = schedule_.cluster;
    Block body{{copy(a_, p_.a, p_.a.load, s)}, {copy(b_, p_.b, p_.b.load, s)}};
    if (a_rest_.valid()) {
      append(body,
             {{copy(a_rest_, p_.a, p_.a.load + 2, s)}, {copy(b_rest_, p_.b, p_.b.load + 2, s)}});
    }
    nest::MatrixTile multiply;
    multiply.sum = sum_;
    multiply.a = a_;
    multiply.b = b_;
    multiply.a_transposed = !p_.a.k_inside;
    multiply.b_transposed = p_.b.k_inside;
    multiply.split = p_.split;
    multiply.a_rest = a_rest_;
    multiply.b_rest = b_rest_;
    body.push_back({multiply});
    loop.body = d.around(std::move(body));
    return loop;
  }

  // The dimension that the iterator alone moves along.
  static size_t dimension_of(const tile::Access& access, IteratorId u) {
    size_t d = 0;
    while (access.index[d].affine.coefficient(u).is_zero()) ++d;
    return d;
  }

  nest::Copy copy(nest::BufferId to, const Operand& o, size_t load, const State& s) const {
    const tile::Access& access = c_.piece.loads[load];
    nest::Copy c;
    c.to = to;
    c.from = c_.frame.buffer_of.at(access.tensor);
    c.limit = o.limit;
    c.extent.assign(access.index.size(), 1);
    c.stride.assign(access.index.size(), 1);
    for (const Index& index : access.index) c.origin.push_back(values_.value_of(index.affine, s));
    std::vector<IteratorId> iterators = o.iterators;
    iterators.insert(o.k_inside ? iterators.end() : iterators.begin(), p_.k.begin(), p_.k.end());
    std::vector<size_t> spanned;
    for (IteratorId u : iterators) {
      if (tile(u) == 1) continue;
      size_t d = dimension_of(access, u);
      c.extent[d] = tile(u);
      c.stride[d] = access.index[d].affine.coefficient(u).num();
      spanned.push_back(d);
    }
    for (size_t d = 0; d < access.index.size(); ++d) {
      if (std::find(spanned.begin(), spanned.end(), d) == spanned.end()) c.order.push_back(d);
    }
    c.order.insert(c.order.end(), spanned.begin(), spanned.end());
    return c;
  }

  Block cells(const std::function<Block(const Expr&, const Expr&)>& inside) const {
    nest::For row = make_loop("row", 0, rows_, LoopKind::thread);
    nest::For column = make_loop("column", 0, columns_, LoopKind::thread);
    column.body = inside(Expr::variable("row"), Expr::variable("column"));
    row.body.push_back(statement(std::move(column)));
    return {statement(std::move(row))};
  }

  Block clear(const Expr& row, const Expr& column) const {
    nest::Store zero;
    zero.target = {sum_, {row, column}, {}};
    zero.body.results = {is_float(p_.sum) ? zero.body.real(0, p_.sum)
                                          : zero.body.integer(0, p_.sum)};
    return {statement(std::move(zero))};
  }

  // The cell's values of the iterators that the tile spans, and its place inside their boxes.
  Block finish(State s, const Expr& row, const Expr& column) const {
    Definitions d("cell");
    nest::If inside;
    auto place = [&](const Operand& o, const Expr& at) {
      std::vector<int64_t> spans;
      for (IteratorId u : o.iterators) spans.push_back(tile(u));
      std::vector<Expr> digits = d.digits(at, spans);
      for (size_t i = 0; i < spans.size(); ++i) {
        IteratorId u = o.iterators[i];
        if (spans[i] == 1) continue;
        s.at[u].levels.push_back({1, digits[i]});
        if (box()[u] % spans[i] == 0) continue;
        inside.nonnegative.push_back(tidy(Expr(box()[u] - 1) - s.at[u].begin()));
      }
    };
    place(p_.a, row);
    place(p_.b, column);
    if (s.tile_index.empty()) s.tile_index = {row, column};
    s.guards = Guards::none;
    Block results = parts_.empty() ? results_.results(s) : Block{stored_part(s)};
    if (inside.nonnegative.empty()) return d.around(std::move(results));
    inside.then = std::move(results);
    return d.around({statement(std::move(inside))});
  }

  nest::Statement stored_part(const State& s) const {
    Expr at = 0;
    for (size_t u : parallel_dims_.iterators) at = tidy(Expr(box()[u]) * at + s.at[u].begin());
    return terms_.copied({parts_[0], {part_, at}, {}}, accumulators_.accumulator(0, s));
  }

  SpreadLowering spread_;
  const TensorCoreGemm& schedule_;
  Product p_;
  gpu::FlatIndex parallel_dims_;
  std::vector<nest::BufferId> parts_;  // of a split: the sums of each part
  Expr part_ = 0;
  Expr first_ = 0, count_;       // of the tile's steps, those of this turn
  int64_t whole_ = 0, cut_ = 0;  // tiles of a stream
  nest::BufferId shares_;        // sums of the blocks' parts
  Expr turn_;                    // among the blocks' parts
  int64_t rows_ = 0, columns_ = 0;
  nest::BufferId sum_, a_, b_, a_rest_, b_rest_;

 public:
  nest::BufferId sum() const { return sum_; }
};

Block lower_tensor_core_gemm(TileParts& parts, const TensorCoreGemm& schedule) {
  const PieceContext& c = parts.context;
  std::optional<Product> product = tensor_cores::product_of(c.piece, c.contraction, c.frame.kernel,
                                                            c.frame.target, c.frame.layouts());
  internal_check(product && tensor_cores::broken(schedule, *product, c.frame.target).empty(),
                 "lower: a tile for tensor cores that cannot be copied");
  TensorCoreLowering matrix(parts, schedule, std::move(*product));
  parts.accumulators.use({matrix.sum()});
  // A result that is read again is computed again: its value is the same.
  parts.results.find_attached(false);
  return matrix.run();
}

}  // namespace tile::lowering
