// Scans along lines and transposed copies on a GPU.
#include "core/schedule/gpu_forms.h"
#include "core/schedule/lowering.h"
#include "core/schedule/scan.h"

namespace tile::lowering {

using nest::Block;
using nest::LoopKind;

namespace {

Block loop_over(const std::string& name, int64_t extent, LoopKind kind,
                const std::function<Block(const Expr&)>& body) {
  nest::For loop = make_loop(name, 0, extent, kind);
  loop.body = body(Expr::variable(name));
  return {statement(std::move(loop))};
}

}  // namespace

// Leaves in shared[lane] of the last buffer written the reduction of the lanes up to it; `flip`
// says which of the two buffers that is. Doubling distances, each read from the other buffer.
Block PieceLowering::scan_lanes(const GpuScan& g, const std::vector<int>& shared, int flip,
                                const Expr& lane) {
  Block out;
  out.push_back({nest::Sync{}});
  for (int64_t distance = 1; distance < g.lanes; distance *= 2) {
    nest::Access from{shared[static_cast<size_t>(flip)], {lane}, {}};
    nest::Access to{shared[static_cast<size_t>(1 - flip)], {lane}, {}};
    nest::Access before{from.buffer, {tidy(lane - Expr(distance))}, {}};
    nest::If choice;
    choice.nonnegative = {tidy(lane - Expr(distance))};
    choice.then = {copied(to, before), combined(to, from)};
    choice.otherwise = {copied(to, from)};
    out.push_back(statement(std::move(choice)));
    out.push_back({nest::Sync{}});
    flip = 1 - flip;
  }
  return out;
}

// One block for each line. A turn takes lanes * vector cells: each thread reduces its neighbours
// one after another, the lanes' totals are scanned, and what came before is added in front.
Block PieceLowering::gpu_scan(const GpuScan& g) {
  ScanForm form = *scan_form(piece_, contraction_);
  int64_t cells = piece_.box[form.owner], values = piece_.box[form.reduction];
  int64_t turns = ceil_div(cells, g.lanes * g.vector);
  gpu::FlatIndex all = gpu::flat_owners(piece_, frame_.kernel), others;
  for (size_t u : all.unknowns) {
    if (u == form.owner) continue;
    others.unknowns.push_back(u);
    others.count = checked_mul(others.count, piece_.box[u]);
    others.fastest = piece_.box[u];
  }
  DType type = contraction_.accumulator;
  std::vector<int> shared;
  for (int i = 0; i < 2; ++i) {
    shared.push_back(frame_.add_buffer("totals", type, nest::Scope::shared, {g.lanes}));
  }
  int carry = register_buffer("carry", type, {1}), front = register_buffer("front", type, {1});
  int doublings = 0;
  while (int64_t{1} << doublings < g.lanes) ++doublings;
  int last = doublings % 2;  // the buffer that the scan of the lanes ends in
  nest::Access carried{carry, {Expr(0)}, {}}, before{front, {Expr(0)}, {}};
  auto at_lane = [&](const Expr& v) {
    State s;
    s.tile_index = {v};
    return accumulator(0, s);
  };
  auto cell_state = [&](const State& line, const Expr& step, const Expr& v) {
    State s = line;
    Expr cell = form.suffix ? tidy(Expr(cells - 1) - step) : step;
    Expr term = tidy(form.suffix ? cell + Expr(form.offset) : cell - Expr(form.offset));
    s.at[form.owner].levels = {{1, cell}};
    s.at[form.reduction].levels = {{1, term}};
    s.tile_index = {v};
    s.guards = Guards::none;
    return s;
  };
  auto turn_body = [&](const State& line, const Expr& turn, const Expr& lane) {
    Block out;
    Expr first = tidy(Expr(g.lanes * g.vector) * turn + Expr(g.vector) * lane);
    auto each = [&](const std::function<Block(const Expr&, const Expr&)>& body) {
      return vector_lanes("near", g.vector,
                          [&](const Expr& v) { return body(v, tidy(first + v)); });
    };
    append(out, each([&](const Expr& v, const Expr& step) {
             State s = cell_state(line, step, v);
             Expr term = s.at[form.reduction].begin();
             Block one{statement(neutral_store(at_lane(v)))};
             append(one,
                    only_if({tidy(Expr(cells - 1) - step), term, tidy(Expr(values - 1) - term)},
                            accumulate(s)));
             return one;
           }));
    if (g.vector > 1) {
      append(out, loop_over("next", g.vector - 1, LoopKind::unrolled, [&](const Expr& v) {
               return Block{combined(at_lane(tidy(v + 1)), at_lane(v))};
             }));
    }
    out.push_back(copied({shared[0], {lane}, {}}, at_lane(Expr(g.vector - 1))));
    append(out, scan_lanes(g, shared, 0, lane));
    int end = shared[static_cast<size_t>(last)];
    out.push_back(copied(before, carried));
    append(out, only_if({tidy(lane - 1)}, {combined(before, {end, {tidy(lane - 1)}, {}})}));
    out.push_back(combined(carried, {end, {Expr(g.lanes - 1)}, {}}));
    append(out, each([&](const Expr& v, const Expr& step) {
             Block one{combined(at_lane(v), before)};
             append(one, owned_results(cell_state(line, step, v)));
             return only_if({tidy(Expr(cells - 1) - step)}, std::move(one));
           }));
    out.push_back({nest::Sync{}});
    return out;
  };
  nest::For grid = make_loop("scan_block", 0, others.count, LoopKind::grid);
  for (int id : shared) grid.body.push_back({nest::Alloc{id}});
  append(grid.body, loop_over("scan_thread", g.lanes, LoopKind::thread, [&](const Expr& lane) {
           return decoded(
               others, whole_box(), Expr::variable("scan_block"), 1, 0, "o",
               [&](const State& line) {
                 Block body = allocations();
                 body.push_back({nest::Alloc{carry}});
                 body.push_back({nest::Alloc{front}});
                 body.push_back(statement(neutral_store(carried)));
                 append(body, loop_over("turn", turns, LoopKind::serial, [&](const Expr& turn) {
                          return turn_body(line, turn, lane);
                        }));
                 return body;
               });
         }));
  return {statement(std::move(grid))};
}

// A tile is read along the input's neighbours and used along the output's.
Block PieceLowering::gpu_transpose(const GpuTranspose& g) {
  gpu::TransposeForm form = *gpu::transpose_form(piece_, contraction_, frame_.kernel);
  TensorId tensor = piece_.loads[form.load].tensor;
  int64_t read = piece_.box[form.read], written = piece_.box[form.written];
  int64_t across = ceil_div(read, g.tile), down = ceil_div(written, g.tile);
  // One more column, so that a tile's columns lie in different banks.
  int buffer = frame_.add_buffer("tile", frame_.tensor(tensor).type, nest::Scope::shared,
                                 {g.tile, g.tile + 1});
  int64_t turns = g.tile / g.rows;
  auto cell = [&](const State& s, const Expr& r, const Expr& w) {
    State at = s;
    at.at[form.read] = {{{1, r}}, 1, 1};
    at.at[form.written] = {{{1, w}}, 1, 1};
    return at;
  };
  auto inside = [&](const Expr& r, const Expr& w) {
    std::vector<Expr> tests;
    if (read % g.tile != 0) tests.push_back(tidy(Expr(read - 1) - r));
    if (written % g.tile != 0) tests.push_back(tidy(Expr(written - 1) - w));
    return tests;
  };
  auto body = [&](const State& s, const Expr& r0, const Expr& w0, const Expr& fast,
                  const Expr& slow) {
    Block out = allocations();
    append(out, loop_over("row", turns, LoopKind::unrolled, [&](const Expr& i) {
             Expr row = tidy(Expr(g.rows) * i + slow), r = tidy(r0 + fast), w = tidy(w0 + row);
             Value value;
             value.body.results = {element(value, form.load, cell(s, r, w))};
             nest::Store store;
             store.target = {buffer, {row, fast}, {}};
             settle(store, std::move(value));
             return only_if(inside(r, w), {statement(std::move(store))});
           }));
    out.push_back({nest::Sync{}});
    int argument = frame_.buffer_of.at(tensor);
    frame_.buffer_of[tensor] = buffer;
    append(out, loop_over("row", turns, LoopKind::unrolled, [&](const Expr& i) {
             Expr row = tidy(Expr(g.rows) * i + slow), r = tidy(r0 + row), w = tidy(w0 + fast);
             frame_.pinned[tensor] = {fast, row};
             return only_if(inside(r, w), owned_results(cell(s, r, w)));
           }));
    frame_.pinned.erase(tensor);
    frame_.buffer_of[tensor] = argument;
    return out;
  };
  nest::For grid = make_loop(
      "copy_block", 0, checked_mul(form.rest.count, checked_mul(across, down)), LoopKind::grid);
  grid.body.push_back({nest::Alloc{buffer}});
  Expr b = Expr::variable("copy_block"), tiles = floor_div(b, Expr(down));
  append(grid.body, loop_over("copy_thread", g.tile * g.rows, LoopKind::thread, [&](const Expr& t) {
           return bound_to("copy_down", floor_mod(b, Expr(down)), [&](const Expr& d) {
             return bound_to("copy_across", floor_mod(tiles, Expr(across)), [&](const Expr& a) {
               return bound_to("copy_rest", floor_div(tiles, Expr(across)), [&](const Expr& rest) {
                 return bound_to("copy_fast", floor_mod(t, Expr(g.tile)), [&](const Expr& fast) {
                   return bound_to("copy_slow", floor_div(t, Expr(g.tile)), [&](const Expr& slow) {
                     return decoded(form.rest, whole_box(), rest, 1, 0, "o", [&](const State& s) {
                       return body(s, tidy(Expr(g.tile) * a), tidy(Expr(g.tile) * d), fast, slow);
                     });
                   });
                 });
               });
             });
           });
         }));
  return {statement(std::move(grid))};
}

}  // namespace tile::lowering
