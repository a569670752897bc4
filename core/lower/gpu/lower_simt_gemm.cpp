// Sums of products on a GPU: tiles of both factors are staged in shared memory, the next ones on
// their way, in registers or by asynchronous copies, while the present ones are multiplied.
#include <algorithm>

#include "core/lower/gpu/gpu_lowering.h"
#include "core/lower/gpu/simt_gemm_lowering.h"

namespace tile::lowering {

using gpu::FlatIndex;
using nest::Block;
using nest::LoopKind;

SimtGemmLowering::SimtGemmLowering(TileParts& parts, const SimtGemm& g)
    : PieceForm(parts),
      spread_(parts),
      g_(g),
      form_(*gpu::matrix_form(c_.piece, c_.contraction, c_.frame.kernel)) {
  threads_ = (g.m / g.thread_m) * (g.n / g.thread_n);
  steps_ = ceil_div(form_.k.count, g.k);
  chunk_ = ceil_div(steps_, g.split);
  operand(x_, form_.x, form_.x_along_k, form_.m, form_.x_conditions, g.m);
  operand(y_, form_.y, form_.y_along_k, form_.n, form_.y_conditions, g.n);
  bool real = is_float(c_.contraction.accumulator);
  if (form_.skips && real && c_.frame.target.strict_skip) {
    // One for each slot: a tile is staged while the one before it is multiplied.
    flag_ = c_.frame.add_buffer("unusual", DType::i32, nest::Scope::shared, {g_.stages});
  }
  make_buffers(x_, "x");
  make_buffers(y_, "y");
}

Block SimtGemmLowering::run() {
  Block out;
  cells_ = flat_cells();
  parts_ = spread_.split_buffers(g_.split, cells_.count, out);
  int64_t m_tiles = ceil_div(form_.m.count, g_.m), n_tiles = ceil_div(form_.n.count, g_.n);
  int64_t blocks =
      checked_mul(checked_mul(m_tiles, n_tiles), checked_mul(form_.batch.count, g_.split));
  append(out, looped("tile_block", blocks, LoopKind::grid, [&](const Expr& b) {
           Block body;
           for (nest::BufferId id : {x_.staged, y_.staged, flag_}) {
             if (id.valid()) body.push_back({nest::Alloc{id}});
           }
           append(body, looped("tile_thread", threads_, LoopKind::thread, [&](const Expr& t) {
                    return digits("tile_", b, {g_.split, form_.batch.count, m_tiles, n_tiles},
                                  [&](const std::vector<Expr>& at) { return thread(at, t); });
                  }));
           return body;
         }));
  if (g_.split > 1) append(out, spread_.combine_parts(cells_, parts_, g_.split));
  return out;
}

Block SimtGemmLowering::looped(const std::string& name, const Expr& extent, LoopKind kind,
                               const Each& body) {
  if (extent.is_constant() && extent.value() <= 0) return {};
  if (extent.is_constant(1) && kind != LoopKind::grid && kind != LoopKind::thread) return body(0);
  nest::For loop = make_loop(name, 0, extent, kind);
  if (kind == LoopKind::vector) loop.width = extent.value();
  loop.body = body(Expr::variable(name));
  if (loop.body.empty()) return {};
  return {statement(std::move(loop))};
}

// Parallel dimensions as the parts of a split count them: batch, m, n.
FlatIndex SimtGemmLowering::flat_cells() const {
  FlatIndex all;
  for (const FlatIndex* f : {&form_.batch, &form_.m, &form_.n}) {
    all.iterators.insert(all.iterators.end(), f->iterators.begin(), f->iterators.end());
    all.count = checked_mul(all.count, f->count);
    if (!f->iterators.empty()) all.fastest = f->fastest;
  }
  return all;
}

// The mixed-radix digits of `value`, the last fastest.
Block SimtGemmLowering::digits(const std::string& prefix, const Expr& value,
                               std::vector<int64_t> radix,
                               const std::function<Block(const std::vector<Expr>&)>& body) {
  std::vector<Expr> found(radix.size());
  std::function<Block(size_t, const Expr&)> next = [&](size_t left, const Expr& rest) -> Block {
    if (left == 0) return body(found);
    Expr digit = left == 1 ? rest : floor_mod(rest, Expr(radix[left - 1]));
    if (radix[left - 1] == 1) digit = 0;
    return bound_to(prefix + "d" + std::to_string(left), digit, [&](const Expr& d) {
      found[left - 1] = d;
      if (left == 1) return body(found);
      return bound_to(prefix + "q" + std::to_string(left), floor_div(rest, Expr(radix[left - 1])),
                      [&](const Expr& q) { return next(left - 1, q); });
    });
  };
  return next(radix.size(), value);
}

// A warp's threads stand 4 x 8 over the cells where the tile has room for it.
Block SimtGemmLowering::thread(const std::vector<Expr>& block, const Expr& t) {
  int64_t rows = g_.m / g_.thread_m, columns = g_.n / g_.thread_n;
  bool warps = rows % 4 == 0 && columns % 8 == 0;
  std::vector<int64_t> radix = warps ? std::vector<int64_t>{rows / 4, columns / 8, 4, 8}
                                     : std::vector<int64_t>{rows, columns};
  return digits("at_", t, radix, [&](const std::vector<Expr>& d) {
    Expr row = warps ? tidy(Expr(4) * d[0] + d[2]) : d[0];
    Expr column = warps ? tidy(Expr(8) * d[1] + d[3]) : d[1];
    return decoded(c_, form_.batch, c_.whole_box(), block[1], 1, 0, "b",
                   [&](const State& s) { return tile(s, {block, t, row, column}); });
  });
}

Block SimtGemmLowering::tile(const State& s, const At& at) {
  Block out = results_.allocations();
  for (const Operand* o : {&x_, &y_}) {
    if (o->held.valid()) out.push_back({nest::Alloc{o->held}});
  }
  make_near(out);
  append(out, over_tile([&](const State& cell) {
           return Block{statement(accumulators_.neutral_store(accumulators_.accumulator(0, cell)))};
         }));
  if (flag_.valid()) {
    Block zeros;
    for (int64_t slot = 0; slot < g_.stages; ++slot) zeros.push_back(flag_store(0, slot));
    append(out, only_if({-at.thread}, std::move(zeros)));
  }
  if (flag_.valid()) out.push_back({nest::Sync{}});
  Expr first = tidy(Expr(chunk_) * at.block[0]);
  Expr last = g_.split == 1 ? Expr(steps_) : min(Expr(steps_), tidy(first + Expr(chunk_)));
  Steps needed = needed_steps(s, at, {first, last});
  append(out, bound_to("first_step", needed.begin, [&](const Expr& begin) {
           return bound_to("steps", tidy(needed.end - begin),
                           [&](const Expr& count) { return stream(s, at, begin, count); });
         }));
  append(out, cleared_cells(s, at));
  append(out, finish(s, at));
  return out;
}

// Registers that hold a thread's part of one term of the tiles; two sets where it reads ahead.
void SimtGemmLowering::make_near(Block& out) {
  int64_t sets = g_.ahead ? 2 : 1;
  x_near_ = accumulators_.register_buffer("x_near", x_.type, {sets, g_.thread_m});
  y_near_ = accumulators_.register_buffer("y_near", y_.type, {sets, g_.thread_n});
  out.push_back({nest::Alloc{x_near_}});
  out.push_back({nest::Alloc{y_near_}});
}

// The steps from `begin` on: slot i % stages of the shared tiles holds step i. Before the first
// one is multiplied, its tiles and those of asynchronous copies for the next ones are on their way.
Block SimtGemmLowering::stream(const State& s, const At& at, const Expr& begin, const Expr& count) {
  bool asynchronous = x_.asynchronous || y_.asynchronous;
  int64_t early = asynchronous ? g_.stages - 1 : 1;
  Block out;
  for (int64_t i = 0; i < early; ++i) {
    Block tiles;
    for (const Operand* o : {&x_, &y_}) {
      if (i > 0 && !o->asynchronous) continue;
      append(tiles, fetched(*o, s, at, tidy(begin + Expr(i)), i));
      append(tiles, staged(*o, i, at.thread));
    }
    append(out, only_if({tidy(count - Expr(1 + i))}, std::move(tiles)));
    out.push_back({nest::Sync{early - 1}});
  }
  if (g_.ahead) append(out, only_if({tidy(count - 1)}, both_near(at, 0, 0, {0, 0})));
  append(out, looped("step", count, LoopKind::serial,
                     [&](const Expr& step) { return one_step(s, at, begin, count, step); }));
  return out;
}

Block SimtGemmLowering::ring(const std::string& name, const Expr& step, const Each& body) const {
  return bound_to(name, floor_mod(step, Expr(g_.stages)), body);
}

Block SimtGemmLowering::one_step(const State& s, const At& at, const Expr& begin, const Expr& count,
                                 const Expr& step) {
  bool asynchronous = x_.asynchronous || y_.asynchronous;
  int64_t early = asynchronous ? g_.stages - 1 : 1;
  Expr more = tidy(count - 2 - step);
  Block far, next;
  for (const Operand* o : {&x_, &y_}) {
    if (o->asynchronous) {
      append(far, ring("far", tidy(step + Expr(early)), [&](const Expr& slot) {
               return fetched(*o, s, at, tidy(begin + step + Expr(early)), slot);
             }));
    } else {
      append(next, fetched(*o, s, at, tidy(begin + step + 1), 0));
    }
  }
  Block out = only_if({tidy(count - Expr(1 + early) - step)}, std::move(far));
  append(out, only_if({more}, std::move(next)));
  nest::Statement barrier{nest::Sync{early - 1}};
  auto behind = [&](const Expr& now, const Each& then) {
    auto slots = [&](const Expr& slot) {
      Block held = staged(x_, slot, at.thread);
      append(held, staged(y_, slot, at.thread));
      Block all = only_if({more}, std::move(held));
      all.push_back(barrier);
      append(all, then(slot));
      return all;
    };
    return g_.stages == 2 ? slots(tidy(Expr(1) - now)) : ring("next", tidy(step + 1), slots);
  };
  append(out, ring("now", step, [&](const Expr& now) {
           if (!g_.ahead) {
             Block body = multiplied(s, at, now, tidy(begin + step));
             append(body, behind(now, [](const Expr&) { return Block{}; }));
             return body;
           }
           Block body = multiplied_ahead(at, now);
           append(body,
                  behind(now, [&](const Expr& slot) { return both_near(at, 0, slot, {0, 0}); }));
           append(body, products(1));
           return body;
         }));
  return out;
}

Expr SimtGemmLowering::divided(const Expr& e, int64_t by) {
  std::optional<LinearForm> form = linear_form(e);
  internal_check(form.has_value(), "lower: a tile that does not begin at a linear index");
  for (auto& [name, factor] : form->terms) factor /= by;
  form->constant /= by;
  return from_linear(*form);
}

// A thread's cells come in quads, spread over the tile so that neighbouring threads hold
// neighbouring quads.
Expr SimtGemmLowering::spread(const Expr& quad, const Expr& i, const Expr& place, int64_t tile,
                              int64_t quads) {
  return tidy(Expr(tile / quads) * quad + Expr(kQuad) * place + i);
}

Block SimtGemmLowering::over_tile(const EachCell& body) const {
  return looped("i", g_.thread_m, LoopKind::unrolled, [&](const Expr& i) {
    return looped("j", g_.thread_n, LoopKind::unrolled, [&](const Expr& j) {
      State s;
      s.tile_index = {i, j};
      return body(s);
    });
  });
}

Block SimtGemmLowering::near(const Operand& o, nest::BufferId buffer, const Expr& set,
                             const Expr& slot, const Term& term, const Expr& place,
                             int64_t cells) const {
  int64_t quads = cells / kQuad;
  return looped("quad", quads, LoopKind::unrolled, [&](const Expr& quad) {
    return vector_lanes("v", kQuad, [&](const Expr& v) {
      nest::Access from = in_tile(o, slot, term, spread(quad, v, place, o.tile, quads));
      nest::Access to{buffer, {set, tidy(Expr(kQuad) * quad + v)}, {}};
      return Block{terms_.copied(std::move(to), std::move(from))};
    });
  });
}

// The thread's part of a term in both tiles.
Block SimtGemmLowering::both_near(const At& at, const Expr& set, const Expr& slot,
                                  const Term& term) const {
  Block out = near(x_, x_near_, set, slot, term, at.row, g_.thread_m);
  append(out, near(y_, y_near_, set, slot, term, at.column, g_.thread_n));
  return out;
}

nest::Statement SimtGemmLowering::product(const State& cell, const Expr& set) const {
  nest::Store store;
  store.kind = nest::StoreKind::fma;
  store.target = accumulators_.accumulator(0, cell);
  store.loads = {{x_near_, {set, cell.tile_index[0]}, {}},
                 {y_near_, {set, cell.tile_index[1]}, {}}};
  store.body.results = {store.body.load(0, x_.type), store.body.load(1, y_.type)};
  return statement(std::move(store));
}

// The products of one term, to and fro, so that neighbours share a factor. A register file has
// few ports: what is read again at once costs none of them. Tiles of other shapes than a square
// are walked in bands of a quad along their longer side.
Block SimtGemmLowering::products(const Expr& set) const {
  bool tall = g_.thread_m >= g_.thread_n;
  int64_t along = std::max(g_.thread_m, g_.thread_n), across = std::min(g_.thread_m, g_.thread_n);
  int64_t band = along == across ? across : kQuad;
  auto line = [&](int64_t first, const Expr& place, bool back) {
    return looped("to", band, LoopKind::unrolled, [&](const Expr& to) {
      Expr other = tidy(Expr(first) + (back ? Expr(band - 1) - to : to));
      State cell;
      cell.tile_index = tall ? std::vector<Expr>{place, other} : std::vector<Expr>{other, place};
      return Block{product(cell, set)};
    });
  };
  Block out;
  for (int64_t first = 0; first < across; first += band) {
    bool up = first / band % 2 != 0;
    append(out, looped("pair", along / 2, LoopKind::unrolled, [&](const Expr& pair) {
             Expr even = up ? tidy(Expr(along - 1) - Expr(2) * pair) : tidy(Expr(2) * pair);
             Block both = line(first, even, false);
             append(both, line(first, tidy(up ? even - 1 : even + 1), true));
             return both;
           }));
  }
  return out;
}

Block SimtGemmLowering::multiplied(const State& s, const At& at, const Expr& slot,
                                   const Expr& step) {
  auto terms = [&](LoopKind kind, const Each& body) {
    return looped("terms", g_.k / kQuad, kind, [&](const Expr& quad) {
      return looped("term", kQuad, kind, [&](const Expr& place) {
        Block out = both_near(at, 0, slot, {quad, place});
        append(out, body(tidy(Expr(kQuad) * quad + place)));
        return out;
      });
    });
  };
  Block fast = terms(LoopKind::unrolled, [&](const Expr&) { return products(0); });
  if (!flag_.valid()) return fast;
  nest::If choice;
  choice.loads = {{flag_, {slot}, {}}};
  NodeId flag = choice.predicate.load(0, DType::i32);
  NodeId zero = choice.predicate.integer(0, DType::i32);
  choice.predicate.results = {choice.predicate.operation(Op::eq, {flag, zero}, DType::bool_)};
  choice.then = std::move(fast);
  choice.otherwise = terms(LoopKind::serial, [&](const Expr& k) {
    return guarded_products(s, at, tidy(Expr(g_.k) * step + k));
  });
  return {statement(std::move(choice))};
}

// All products of a step whose first term has been read, but those of its last one, which is read:
// terms of even numbers use the first set of registers.
Block SimtGemmLowering::multiplied_ahead(const At& at, const Expr& slot) const {
  auto quad = [&](const Expr& q, bool last) {
    Block out;
    for (int64_t i = 1; i < kQuad + (last ? 0 : 1); ++i) {
      Term next = i < kQuad ? Term{q, Expr(i)} : Term{tidy(q + 1), 0};
      append(out, both_near(at, i % 2, slot, next));
      append(out, products((i - 1) % 2));
    }
    return out;
  };
  int64_t quads = g_.k / kQuad;
  Block out =
      looped("terms", quads - 1, LoopKind::unrolled, [&](const Expr& q) { return quad(q, false); });
  append(out, quad(quads - 1, true));
  return out;
}

// The products of one term whose points are in the domain.
Block SimtGemmLowering::guarded_products(const State& s, const At& at, const Expr& k) {
  return decoded(c_, form_.k, s, k, 1, 0, "k", [&](const State& sk) {
    return over_cells(
        sk, at,
        [&](const State& cell) {
          std::vector<Expr> tests;
          for (const Operand* o : {&x_, &y_}) {
            std::vector<Expr> more = factor_tests(*o, cell);
            tests.insert(tests.end(), more.begin(), more.end());
          }
          return only_if(std::move(tests), {product(cell, 0)});
        },
        false);
  });
}

// The thread's cells of the output, without those outside; `vector`: neighbours along n together.
Block SimtGemmLowering::over_cells(const State& s, const At& at, const EachCell& body,
                                   bool vector) {
  int64_t rows = g_.thread_m / kQuad, columns = g_.thread_n / kQuad;
  int64_t lanes = vector && form_.n.fastest % kQuad == 0 ? kQuad : 1;
  bool m_border = form_.m.count % g_.m != 0, n_border = form_.n.count % g_.n != 0;
  auto across = [&](const State& sm, const Expr& i) {
    return looped("quad_j", columns, LoopKind::unrolled, [&](const Expr& quad) {
      return looped("j", kQuad / lanes, LoopKind::unrolled, [&](const Expr& j) {
        Expr first = tidy(Expr(g_.n) * at.block[3] + spread(quad, j, at.column, g_.n, columns));
        Expr group = lanes == 1 ? first : divided(first, lanes);
        Expr lane = lanes == 1 ? Expr(0) : Expr::variable("v");
        std::vector<Expr> inside;
        if (n_border) inside.push_back(tidy(Expr(form_.n.count / lanes - 1) - group));
        return only_if(inside,
                       decoded(c_, form_.n, sm, group, lanes, lane, "n", [&](const State& sn) {
                         return vector_lanes("v", lanes, [&](const Expr& v) {
                           State cell = sn;
                           cell.tile_index = {i, tidy(Expr(kQuad) * quad + j + v)};
                           return body(cell);
                         });
                       }));
      });
    });
  };
  return looped("quad_i", rows, LoopKind::unrolled, [&](const Expr& quad) {
    return looped("i", kQuad, LoopKind::unrolled, [&](const Expr& i) {
      Expr m = tidy(Expr(g_.m) * at.block[2] + spread(quad, i, at.row, g_.m, rows));
      std::vector<Expr> inside;
      if (m_border) inside.push_back(tidy(Expr(form_.m.count - 1) - m));
      return only_if(inside, decoded(c_, form_.m, s, m, 1, 0, "m", [&](const State& sm) {
                       return across(sm, tidy(Expr(kQuad) * quad + i));
                     }));
    });
  });
}

// Cells without a point, of a tile that has others.
Block SimtGemmLowering::cleared_cells(const State& s, const At& at) {
  if (form_.cell_conditions.empty()) return {};
  return over_cells(
      s, at,
      [&](const State& cell) {
        nest::If choice;
        for (size_t i : form_.cell_conditions) {
          std::vector<Expr> more = values_.conditions_at(c_.piece.constraints[i], cell);
          choice.nonnegative.insert(choice.nonnegative.end(), more.begin(), more.end());
        }
        if (choice.nonnegative.empty()) return Block{};
        nest::Access sum = accumulators_.accumulator(0, cell);
        choice.otherwise = {statement(accumulators_.neutral_store(std::move(sum)))};
        return Block{statement(std::move(choice))};
      },
      false);
}

Block SimtGemmLowering::finish(const State& s, const At& at) {
  return over_cells(
      s, at,
      [&](const State& cell) {
        if (g_.split == 1) return results_.owned_results(cell);
        nest::Access to{parts_[0], {at.block[0], position(cell)}, {}};
        return Block{terms_.copied(std::move(to), accumulators_.accumulator(0, cell))};
      },
      true);
}

// The cell's place in the parts of a split.
Expr SimtGemmLowering::position(const State& cell) const {
  Expr at = 0;
  for (size_t u : cells_.iterators) at = tidy(Expr(c_.piece.box[u]) * at + cell.at[u].begin());
  return at;
}

Block lower_simt_gemm(TileParts& parts, const SimtGemm& g) {
  return SimtGemmLowering(parts, g).run();
}

}  // namespace tile::lowering
