// Scans along lines and transposed copies on a GPU.
#include "core/kernel/forms/gpu_forms.h"
#include "core/kernel/forms/scan.h"
#include "core/lower/gpu/gpu_lowering.h"
#include "core/lower/gpu/spread_lowering.h"

namespace tile::lowering {

using nest::Block;
using nest::LoopKind;

namespace {

constexpr int64_t kNear = 4;   // cells of a part that are neighbours
constexpr int64_t kRadix = 4;  // lanes that a level of a scan brings together
constexpr int64_t kSets = 2;   // of registers: a turn's cells, and the next one's

Block loop_over(const std::string& name, int64_t extent, LoopKind kind,
                const std::function<Block(const Expr&)>& body) {
  nest::For loop = make_loop(name, 0, extent, kind);
  loop.body = body(Expr::variable(name));
  return {statement(std::move(loop))};
}

}  // namespace

// One block for each line. A turn takes `parts` times lanes * vector cells: each thread reduces its
// neighbours in each part one after another, the lanes' totals are scanned for all parts at once,
// and what came before is added in front. The terms of the next turn are read meanwhile, into the
// other of two sets of registers.
class GpuScanLowering : PieceForm {
 public:
  GpuScanLowering(TileParts& parts, const GpuScan& g)
      : PieceForm(parts), g_(g), form_(*scan_form(c_.piece, c_.contraction)) {
    Shape shape = scan_shape(g);
    parts_ = shape[1];
    near_ = shape[2];
    cells_ = c_.piece.box[form_.parallel_dim];
    reduced_ = c_.piece.box[form_.reduction];
    gpu::FlatIndex all = gpu::flat_parallel_dims(c_.piece, c_.frame.kernel);
    for (size_t u : all.iterators) {
      if (u == form_.parallel_dim) continue;
      others_.iterators.push_back(u);
      others_.count = checked_mul(others_.count, c_.piece.box[u]);
      others_.fastest = c_.piece.box[u];
    }
    DType type = c_.contraction.accumulator;
    for (int i = 0; i < 2; ++i) {
      Shape totals{g.lanes, parts_};
      shared_.push_back(c_.frame.add_buffer("totals", type, nest::Scope::shared, totals));
    }
    for (int64_t left = g.lanes; left > 1; left /= radices_.back()) {
      radices_.push_back(std::min<int64_t>(left, kRadix));
    }
    end_ = shared_[radices_.size() % 2];
    total_ = accumulators_.register_buffer("total", type, {parts_});
    carry_ = accumulators_.register_buffer("carry", type, {1});
    front_ = accumulators_.register_buffer("front", type, {1});
  }

  Block run() {
    nest::For grid = make_loop("scan_block", 0, others_.count, LoopKind::grid);
    for (nest::BufferId id : shared_) grid.body.push_back({nest::Alloc{id}});
    append(grid.body, loop_over("scan_thread", g_.lanes, LoopKind::thread, [&](const Expr& lane) {
             return decoded(c_, others_, c_.whole_box(), Expr::variable("scan_block"), 1, 0, "o",
                            [&](const State& line) { return walk(line, lane); });
           }));
    return {statement(std::move(grid))};
  }

 private:
  static nest::Access only(nest::BufferId buffer) { return {buffer, {Expr(0)}, {}}; }
  nest::Access total(const Expr& lane, const Expr& part) const { return {end_, {lane, part}, {}}; }
  nest::Access cell_at(const Expr& part, const Expr& near) const {
    State s;
    s.tile_index = {set_, part, near};
    return accumulators_.accumulator(0, s);
  }

  Block walk(const State& line, const Expr& lane) {
    Block body = results_.allocations();
    body.push_back({nest::Alloc{carry_}});
    body.push_back({nest::Alloc{front_}});
    body.push_back({nest::Alloc{total_}});
    body.push_back(statement(accumulators_.neutral_store(only(carry_))));
    int64_t turns = ceil_div(cells_, g_.lanes * near_ * parts_);
    append(body, terms(line, 0, lane));
    append(body, loop_over("turns", turns / kSets, LoopKind::serial, [&](const Expr& both) {
             Expr turn = tidy(Expr(kSets) * both);
             Block two = turn_body(line, turn, lane, true);
             append(two, turn_body(line, tidy(turn + 1), lane, turns > kSets));
             return two;
           }));
    if (turns % kSets != 0) append(body, turn_body(line, turns - 1, lane, false));
    return body;
  }

  Expr cell_of(const Expr& step) const {
    return form_.suffix ? tidy(Expr(cells_ - 1) - step) : step;
  }
  Expr term_of(const Expr& step) const {
    return tidy(form_.suffix ? cell_of(step) + Expr(form_.offset) : step - Expr(form_.offset));
  }
  State cell_state(const State& line, const Expr& step, const Expr& part, const Expr& near) const {
    State s = line;
    s.at[form_.parallel_dim].levels = {{1, cell_of(step)}};
    s.at[form_.reduction].levels = {{1, term_of(step)}};
    s.tile_index = {set_, part, near};
    s.guards = Guards::none;
    return s;
  }

  // The steps from `first` to `last` are of cells; with `terms`, of cells that have a term.
  std::vector<Expr> inside(const Expr& first, const Expr& last, bool terms) const {
    std::vector<Expr> tests{tidy(Expr(cells_ - 1) - last)};
    if (!terms) return tests;
    tests.push_back(term_of(form_.suffix ? last : first));
    tests.push_back(tidy(Expr(reduced_ - 1) - term_of(form_.suffix ? first : last)));
    return tests;
  }
  // The thread's cells of a part in a turn that are there: `body` gets the neighbour and the step
  // of each. Where the line is made of whole groups of neighbours one test serves all of a group.
  Block each(const Expr& turn, const Expr& lane, const Expr& part, bool terms,
             const std::function<Block(const Expr&, const Expr&)>& body) const {
    Expr before = tidy(Expr(g_.lanes * near_) * (Expr(parts_) * turn + part));
    Expr first = tidy(before + Expr(near_) * lane);
    bool whole = cells_ % near_ == 0 && reduced_ % near_ == 0 && form_.offset % near_ == 0;
    if (whole) {
      return only_if(
          inside(first, tidy(first + Expr(near_ - 1)), terms),
          vector_lanes("near", near_, [&](const Expr& v) { return body(v, tidy(first + v)); }));
    }
    return vector_lanes("near", near_, [&](const Expr& v) {
      Expr step = tidy(first + v);
      return only_if(inside(step, step, terms), body(v, step));
    });
  }
  Block parts(const std::function<Block(const Expr&)>& body) const {
    return loop_over("part", parts_, LoopKind::unrolled, body);
  }

  // A cell's only term so far needs no sum, which would wait for it: what is in front of the cell
  // is added later in any case.
  static Block only_term(Block block) {
    for (nest::Statement& s : block) {
      auto* store = std::get_if<nest::Store>(&s.what);
      if (store != nullptr && store->body.results.size() == 1)
        store->kind = nest::StoreKind::assign;
    }
    return block;
  }
  Block terms(const State& line, const Expr& turn, const Expr& lane) const {
    return parts([&](const Expr& q) {
      Block out = vector_lanes("near", near_, [&](const Expr& v) {
        return Block{statement(accumulators_.neutral_store(cell_at(q, v)))};
      });
      append(out, each(turn, lane, q, true, [&](const Expr& v, const Expr& step) {
               return only_term(terms_.accumulate(cell_state(line, step, q, v)));
             }));
      return out;
    });
  }
  // Leaves the other set of registers as the one of the next turn.
  Block turn_body(const State& line, const Expr& turn, const Expr& lane, bool more) {
    Expr set = set_, other = tidy(Expr(kSets - 1) - set);
    set_ = other;
    Block out = more ? terms(line, tidy(turn + 1), lane) : Block{};
    set_ = set;
    append(out, parts([&](const Expr& q) {
             Block sums;
             if (near_ > 1) {
               sums = loop_over("next", near_ - 1, LoopKind::unrolled, [&](const Expr& v) {
                 return Block{terms_.combined(cell_at(q, tidy(v + 1)), cell_at(q, v))};
               });
             }
             sums.push_back(terms_.copied({total_, {q}, {}}, cell_at(q, Expr(near_ - 1))));
             return sums;
           }));
    append(out, scan_lanes(lane));
    append(out, parts([&](const Expr& q) { return finish(line, turn, lane, q); }));
    out.push_back({nest::Sync{}});
    set_ = other;
    return out;
  }

  // Leaves in end_[lane][part] the reduction of the lanes up to it. Each level adds what the lanes
  // at up to radix - 1 distances have, read from one buffer, to the thread's total, written to the
  // other.
  Block scan_lanes(const Expr& lane) {
    auto share = [&](nest::BufferId buffer) {
      return vector_lanes("part", parts_, [&](const Expr& part) {
        return Block{terms_.copied({buffer, {lane, part}, {}}, {total_, {part}, {}})};
      });
    };
    Block out = share(shared_[0]);
    out.push_back({nest::Sync{}});
    int64_t distance = 1;
    for (size_t level = 0; level < radices_.size(); ++level) {
      for (int64_t i = 1; i < radices_[level]; ++i) {
        Expr from = tidy(lane - Expr(i * distance));
        append(out, only_if({from}, vector_lanes("part", parts_, [&](const Expr& part) {
                              nest::Access other{shared_[level % 2], {from, part}, {}};
                              return Block{terms_.combined({total_, {part}, {}}, std::move(other))};
                            })));
      }
      append(out, share(shared_[1 - level % 2]));
      out.push_back({nest::Sync{}});
      distance *= radices_[level];
    }
    return out;
  }

  Block finish(const State& line, const Expr& turn, const Expr& lane, const Expr& q) {
    Block out{terms_.copied(only(front_), only(carry_))};
    append(out,
           only_if({tidy(lane - 1)}, {terms_.combined(only(front_), total(tidy(lane - 1), q))}));
    out.push_back(terms_.combined(only(carry_), total(Expr(g_.lanes - 1), q)));
    append(out, each(turn, lane, q, false, [&](const Expr& v, const Expr& step) {
             Block one{terms_.combined(cell_at(q, v), only(front_))};
             append(one, results_.owned_results(cell_state(line, step, q, v)));
             return one;
           }));
    return out;
  }

  const GpuScan& g_;
  ScanForm form_;
  gpu::FlatIndex others_;
  int64_t parts_ = 1, near_ = 1, cells_ = 0, reduced_ = 0;
  std::vector<nest::BufferId> shared_;
  std::vector<int64_t> radices_;  // of the levels that scan the lanes
  nest::BufferId end_, total_, carry_, front_;
  Expr set_ = 0;  // of registers: that of the turn at hand
};

Shape scan_shape(const GpuScan& g) {
  bool parts = g.vector > kNear && g.vector % kNear == 0;
  return parts ? Shape{kSets, g.vector / kNear, kNear} : Shape{kSets, 1, g.vector};
}

Block lower_gpu_scan(TileParts& parts, const GpuScan& g) { return GpuScanLowering(parts, g).run(); }

// A tile is read along the input's neighbours and used along the output's.
class TransposeLowering : PieceForm {
 public:
  TransposeLowering(TileParts& parts, const GpuTranspose& g)
      : PieceForm(parts),
        g_(g),
        form_(*gpu::transpose_form(c_.piece, c_.frame.kernel)),
        tensor_(c_.piece.loads[form_.load].tensor),
        read_(c_.piece.box[form_.read]),
        written_(c_.piece.box[form_.written]),
        // One more column, so that a tile's columns lie in different banks.
        buffer_(c_.frame.add_buffer("tile", c_.frame.tensor(tensor_).type, nest::Scope::shared,
                                    {g.tile, g.tile + 1})) {}

  Block run() {
    int64_t across = ceil_div(read_, g_.tile), down = ceil_div(written_, g_.tile);
    nest::For grid = make_loop(
        "copy_block", 0, checked_mul(form_.rest.count, checked_mul(across, down)), LoopKind::grid);
    grid.body.push_back({nest::Alloc{buffer_}});
    Expr b = Expr::variable("copy_block"), tiles = floor_div(b, Expr(down));
    // The tile's place down and across and in the other dimensions, and the thread's in the tile.
    std::vector<std::pair<const char*, Expr>> digits{
        {"copy_down", floor_mod(b, Expr(down))},
        {"copy_across", floor_mod(tiles, Expr(across))},
        {"copy_rest", floor_div(tiles, Expr(across))}};
    append(grid.body,
           loop_over("copy_thread", g_.tile * g_.rows, LoopKind::thread, [&](const Expr& t) {
             digits.emplace_back("copy_fast", floor_mod(t, Expr(g_.tile)));
             digits.emplace_back("copy_slow", floor_div(t, Expr(g_.tile)));
             return named_digits(digits, {});
           }));
    return {statement(std::move(grid))};
  }

 private:
  using Digits = std::vector<std::pair<const char*, Expr>>;
  Block named_digits(const Digits& digits, std::vector<Expr> known) {
    if (known.size() == digits.size()) return tile(known);
    const auto& [name, value] = digits[known.size()];
    return bound_to(name, value, [&](const Expr& v) {
      std::vector<Expr> more = known;
      more.push_back(v);
      return named_digits(digits, std::move(more));
    });
  }

  Block tile(const std::vector<Expr>& at) {
    return decoded(c_, form_.rest, c_.whole_box(), at[2], 1, 0, "o", [&](const State& s) {
      return thread(s, tidy(Expr(g_.tile) * at[1]), tidy(Expr(g_.tile) * at[0]), at[3], at[4]);
    });
  }

  State cell(const State& s, const Expr& r, const Expr& w) const {
    State at = s;
    at.at[form_.read] = {{{1, r}}, 1, 1};
    at.at[form_.written] = {{{1, w}}, 1, 1};
    return at;
  }
  std::vector<Expr> inside(const Expr& r, const Expr& w) const {
    std::vector<Expr> tests;
    if (read_ % g_.tile != 0) tests.push_back(tidy(Expr(read_ - 1) - r));
    if (written_ % g_.tile != 0) tests.push_back(tidy(Expr(written_ - 1) - w));
    return tests;
  }
  Block rows(const std::function<Block(const Expr&)>& body) const {
    return loop_over("row", g_.tile / g_.rows, LoopKind::unrolled, body);
  }

  // Of the tile that begins at r0 and w0.
  Block thread(const State& s, const Expr& r0, const Expr& w0, const Expr& fast, const Expr& slow) {
    Block out = results_.allocations();
    append(out, rows([&](const Expr& i) {
             Expr row = tidy(Expr(g_.rows) * i + slow), r = tidy(r0 + fast), w = tidy(w0 + row);
             Value value;
             value.body.results = {values_.element(value, form_.load, cell(s, r, w))};
             nest::Store store;
             store.target = {buffer_, {row, fast}, {}};
             settle(store, std::move(value));
             return only_if(inside(r, w), {statement(std::move(store))});
           }));
    out.push_back({nest::Sync{}});
    nest::BufferId argument = c_.frame.buffer_of.at(tensor_);
    c_.frame.buffer_of[tensor_] = buffer_;
    append(out, rows([&](const Expr& i) {
             Expr row = tidy(Expr(g_.rows) * i + slow), r = tidy(r0 + row), w = tidy(w0 + fast);
             c_.frame.pinned[tensor_] = {fast, row};
             return only_if(inside(r, w), results_.owned_results(cell(s, r, w)));
           }));
    c_.frame.pinned.erase(tensor_);
    c_.frame.buffer_of[tensor_] = argument;
    return out;
  }

  const GpuTranspose& g_;
  gpu::TransposeForm form_;
  TensorId tensor_;
  int64_t read_, written_;
  nest::BufferId buffer_;
};

Block lower_gpu_transpose(TileParts& parts, const GpuTranspose& g) {
  return TransposeLowering(parts, g).run();
}

}  // namespace tile::lowering
