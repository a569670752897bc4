// Sums of products on a GPU: tiles of both factors are staged in shared memory, the next ones on
// their way in registers while the present ones are multiplied. Addresses outside are clamped to
// the last cells, whose results are not stored; terms outside are staged as zeros in both factors.
//
// A condition of the domain that only one factor knows makes that factor zero; a zero times an
// infinity would then not be skipped (rule 4.12), so tiles in which a staged value is not finite
// are multiplied with the conditions tested point by point.
#include <algorithm>

#include "core/schedule/gpu_forms.h"
#include "core/schedule/lowering.h"

namespace tile::lowering {

using gpu::FlatIndex;
using gpu::MatrixForm;
using nest::Block;
using nest::LoopKind;

namespace {

constexpr int64_t kQuad = 4;  // neighbours that one thread moves or holds

Block looped(const std::string& name, const Expr& extent, LoopKind kind,
             const std::function<Block(const Expr&)>& body) {
  if (extent.is_constant() && extent.value() <= 0) return {};
  if (extent.is_constant(1) && kind != LoopKind::grid && kind != LoopKind::thread) return body(0);
  nest::For loop = make_loop(name, 0, extent, kind);
  if (kind == LoopKind::vector) loop.width = extent.value();
  loop.body = body(Expr::variable(name));
  if (loop.body.empty()) return {};
  return {statement(std::move(loop))};
}

}  // namespace

// One factor: how its tile is staged.
struct PieceLowering::Operand {
  NodeId value = -1;
  bool along_k = false;
  const FlatIndex* owners = nullptr;
  const std::vector<size_t>* conditions = nullptr;
  int64_t tile = 0;            // owners of a tile
  int64_t vector = 1;          // neighbours of one access
  int64_t moves = 1;           // accesses of one thread for one tile
  int staged = -1, held = -1;  // shared and register buffers
  DType type = DType::f32;
};

class PieceLowering::MatrixLowering {
 public:
  MatrixLowering(PieceLowering& piece, const GpuMatrix& g)
      : p_(piece),
        g_(g),
        form_(*gpu::matrix_form(piece.piece_, piece.contraction_, piece.frame_.kernel)) {
    threads_ = (g.m / g.thread_m) * (g.n / g.thread_n);
    steps_ = ceil_div(form_.k.count, g.k);
    chunk_ = ceil_div(steps_, g.split);
    operand(x_, form_.x, form_.x_along_k, form_.m, form_.x_conditions, g.m, "x");
    operand(y_, form_.y, form_.y_along_k, form_.n, form_.y_conditions, g.n, "y");
    bool real = is_float(p_.contraction_.accumulator);
    if (form_.skips && real && p_.frame_.target.strict_skip) {
      flag_ = p_.frame_.add_buffer("unusual", DType::i32, nest::Scope::shared, {1});
    }
  }

  Block run() {
    Block out;
    cells_ = flat_cells();
    parts_ = p_.split_buffers(g_.split, cells_.count, out);
    int64_t m_tiles = ceil_div(form_.m.count, g_.m), n_tiles = ceil_div(form_.n.count, g_.n);
    int64_t blocks =
        checked_mul(checked_mul(m_tiles, n_tiles), checked_mul(form_.batch.count, g_.split));
    append(out, looped("tile_block", blocks, LoopKind::grid, [&](const Expr& b) {
             Block body;
             for (int id : {x_.staged, y_.staged, flag_}) {
               if (id >= 0) body.push_back({nest::Alloc{id}});
             }
             append(body, looped("tile_thread", threads_, LoopKind::thread, [&](const Expr& t) {
                      return digits("tile_", b, {g_.split, form_.batch.count, m_tiles, n_tiles},
                                    [&](const std::vector<Expr>& at) { return thread(at, t); });
                    }));
             return body;
           }));
    if (g_.split > 1) append(out, p_.combine_parts(cells_, parts_, g_.split));
    return out;
  }

 private:
  void operand(Operand& o, NodeId value, bool along, const FlatIndex& owners,
               const std::vector<size_t>& conditions, int64_t tile, const char* name) {
    o.value = value;
    o.along_k = along;
    o.owners = &owners;
    o.conditions = &conditions;
    o.tile = tile;
    o.type = p_.contraction_.accumulator;
    const FlatIndex& near = along ? form_.k : owners;
    o.vector = near.fastest % kQuad == 0 ? kQuad : 1;
    o.moves = tile * g_.k / o.vector / threads_;
    Shape held{o.moves, o.vector};
    o.held =
        p_.frame_.add_buffer(std::string(name) + "_held", o.type, nest::Scope::registers, held);
    // Padding keeps transposed stores in different banks.
    Shape staged{2, g_.k, tile + (along ? kQuad : 0)};
    o.staged =
        p_.frame_.add_buffer(std::string(name) + "_tile", o.type, nest::Scope::shared, staged);
  }

  // Owners as the parts of a split count them: batch, m, n.
  FlatIndex flat_cells() const {
    FlatIndex all;
    for (const FlatIndex* f : {&form_.batch, &form_.m, &form_.n}) {
      all.unknowns.insert(all.unknowns.end(), f->unknowns.begin(), f->unknowns.end());
      all.count = checked_mul(all.count, f->count);
      if (!f->unknowns.empty()) all.fastest = f->fastest;
    }
    return all;
  }

  // The mixed-radix digits of `value`, the last fastest.
  static Block digits(const std::string& prefix, const Expr& value, std::vector<int64_t> radix,
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
  Block thread(const std::vector<Expr>& at, const Expr& t) {
    int64_t rows = g_.m / g_.thread_m, columns = g_.n / g_.thread_n;
    bool warps = rows % 4 == 0 && columns % 8 == 0;
    std::vector<int64_t> radix = warps ? std::vector<int64_t>{rows / 4, columns / 8, 4, 8}
                                       : std::vector<int64_t>{rows, columns};
    return digits("at_", t, radix, [&](const std::vector<Expr>& d) {
      Expr row = warps ? tidy(Expr(4) * d[0] + d[2]) : d[0];
      Expr column = warps ? tidy(Expr(8) * d[1] + d[3]) : d[1];
      return p_.decoded(form_.batch, p_.whole_box(), at[1], 1, 0, "b",
                        [&](const State& s) { return tile(s, at, t, row, column); });
    });
  }

  Block tile(const State& s, const std::vector<Expr>& at, const Expr& t, const Expr& row,
             const Expr& column) {
    Block out = p_.allocations();
    for (const Operand* o : {&x_, &y_}) out.push_back({nest::Alloc{o->held}});
    for (int id : {x_near_, y_near_}) {
      if (id >= 0) out.push_back({nest::Alloc{id}});
    }
    make_near(out);
    append(out, over_tile([&](const State& cell) {
             return Block{statement(p_.neutral_store(p_.accumulator(0, cell)))};
           }));
    if (flag_ >= 0) append(out, only_if({-t}, {flag_store(0)}));
    Expr begin = tidy(Expr(chunk_) * at[0]);
    Expr count = g_.split == 1 ? Expr(steps_) : min(Expr(chunk_), tidy(Expr(steps_) - begin));
    if (flag_ >= 0) out.push_back({nest::Sync{}});
    append(out, bound_to("steps", count,
                         [&](const Expr& n) { return stream(s, at, t, row, column, begin, n); }));
    append(out, finish(s, at, row, column));
    return out;
  }

  // Registers that hold a thread's part of one term of the tiles.
  void make_near(Block& out) {
    x_near_ = p_.register_buffer("x_near", x_.type, {g_.thread_m});
    y_near_ = p_.register_buffer("y_near", y_.type, {g_.thread_n});
    out.push_back({nest::Alloc{x_near_}});
    out.push_back({nest::Alloc{y_near_}});
  }

  Block stream(const State& s, const std::vector<Expr>& at, const Expr& t, const Expr& row,
               const Expr& column, const Expr& begin, const Expr& count) {
    auto hold = [&](const Expr& step) {
      Block both = held(x_, s, tidy(Expr(g_.m) * at[2]), step, t);
      append(both, held(y_, s, tidy(Expr(g_.n) * at[3]), step, t));
      return both;
    };
    auto stage = [&](const Expr& buffer) {
      Block both = staged(x_, buffer, t);
      append(both, staged(y_, buffer, t));
      return both;
    };
    Block out;
    Block first = hold(begin);
    append(first, stage(0));
    append(out, only_if({tidy(count - 1)}, std::move(first)));
    out.push_back({nest::Sync{}});
    append(out, looped("step", count, LoopKind::serial, [&](const Expr& step) {
             Expr next = tidy(begin + step + 1), more = tidy(count - 2 - step);
             Block body = only_if({more}, hold(next));
             append(body, bound_to("now", floor_mod(step, Expr(2)), [&](const Expr& now) {
                      Block inside = multiplied(s, at, row, column, now, tidy(begin + step));
                      append(inside, only_if({more}, stage(tidy(Expr(1) - now))));
                      return inside;
                    }));
             body.push_back({nest::Sync{}});
             return body;
           }));
    return out;
  }

  // Where the thread's access number q lies in the tile: its term and owner, in units of the vector
  // along the direction of neighbours.
  Block moved(
      const Operand& o, const Expr& t,
      const std::function<Block(const Expr& q, const Expr& term, const Expr& owner)>& body) {
    int64_t near = (o.along_k ? g_.k : o.tile) / o.vector;
    return looped("move", o.moves, LoopKind::unrolled, [&](const Expr& q) {
      Expr element = tidy(Expr(threads_) * q + t);
      return bound_to("near_q", floor_mod(element, Expr(near)), [&](const Expr& fast) {
        return bound_to("far_q", floor_div(element, Expr(near)), [&](const Expr& slow) {
          return o.along_k ? body(q, fast, slow) : body(q, slow, fast);
        });
      });
    });
  }

  nest::Access held_at(const Operand& o, const Expr& q, const Expr& v) const {
    return {o.held, {q, v}, {}};
  }

  // Reads the thread's part of a tile into registers.
  Block held(const Operand& o, const State& s, const Expr& first, const Expr& step, const Expr& t) {
    int64_t term_vector = o.along_k ? o.vector : 1, owner_vector = o.along_k ? 1 : o.vector;
    Expr lane = o.vector == 1 ? Expr(0) : Expr::variable("v");
    Expr term_lane = o.along_k ? lane : Expr(0), owner_lane = o.along_k ? Expr(0) : lane;
    return moved(o, t, [&](const Expr& q, const Expr& term, const Expr& owner) {
      Expr k = tidy(Expr(g_.k / term_vector) * step + term);
      Expr at = tidy((owner_vector > 1 ? divided(first, owner_vector) : first) + owner);
      int64_t most = o.owners->count / owner_vector - 1;
      if (o.owners->count % o.tile != 0) at = min(at, Expr(most));
      std::vector<Expr> inside;
      int64_t terms = form_.k.count / term_vector;
      if (form_.k.count % g_.k != 0) inside.push_back(tidy(Expr(terms - 1) - k));
      auto zero = [&] {
        return vector_lanes("v", o.vector, [&](const Expr& v) {
          nest::Store store;
          store.target = held_at(o, q, v);
          store.body.results = {is_float(o.type) ? store.body.real(0, o.type)
                                                 : store.body.integer(0, o.type)};
          return Block{statement(std::move(store))};
        });
      };
      Block value = bound_to("cell_q", at, [&](const Expr& cell) {
        return p_.decoded(*o.owners, s, cell, owner_vector, owner_lane, "o", [&](const State& so) {
          return p_.decoded(form_.k, so, k, term_vector, term_lane, "k",
                            [&](const State& sk) { return loaded(o, sk, q, zero); });
        });
      });
      return either(std::move(inside), std::move(value), zero);
    });
  }

  static Expr divided(const Expr& e, int64_t by) {
    std::optional<LinearForm> form = linear_form(e);
    internal_check(form.has_value(), "lower: a tile that does not begin at a linear index");
    for (auto& [name, factor] : form->terms) factor /= by;
    form->constant /= by;
    return from_linear(*form);
  }

  static Block either(std::vector<Expr> tests, Block value, const std::function<Block()>& zero) {
    if (tests.empty()) return value;
    nest::If choice;
    choice.nonnegative = std::move(tests);
    choice.then = std::move(value);
    choice.otherwise = zero();
    return {statement(std::move(choice))};
  }

  // The factor's value, or zero outside its conditions: tested once where the neighbours share
  // them.
  Block loaded(const Operand& o, const State& s, const Expr& q,
               const std::function<Block()>& zero) {
    std::vector<Expr> tests = factor_tests(o, s);
    bool by_lane = std::any_of(tests.begin(), tests.end(),
                               [](const Expr& e) { return uses_variable(e, "v"); });
    auto read = [&](const Expr& v) {
      Value value;
      NodeId root = p_.translate(value, p_.piece_, o.value, s, {});
      value.body.results = {root};
      nest::Store store;
      store.target = held_at(o, q, v);
      settle(store, std::move(value));
      return Block{statement(std::move(store))};
    };
    if (!by_lane || o.vector == 1) {
      return either(tests, vector_lanes("v", o.vector, read), zero);
    }
    return vector_lanes("v", o.vector, [&](const Expr& v) {
      return either(tests, read(v), [&] {
        nest::Store store;
        store.target = held_at(o, q, v);
        store.body.results = {is_float(o.type) ? store.body.real(0, o.type)
                                               : store.body.integer(0, o.type)};
        return Block{statement(std::move(store))};
      });
    });
  }

  std::vector<Expr> factor_tests(const Operand& o, const State& s) const {
    std::vector<Expr> tests;
    for (size_t i : *o.conditions) {
      std::vector<Expr> more = conditions(p_.piece_.constraints[i], p_.piece_,
                                          [&](const Affine& form) { return p_.value_of(form, s); });
      tests.insert(tests.end(), more.begin(), more.end());
    }
    return tests;
  }

  nest::Statement flag_store(int64_t value) const {
    nest::Store store;
    store.target = {flag_, {Expr(0)}, {}};
    store.body.results = {store.body.integer(value, DType::i32)};
    return statement(std::move(store));
  }

  // Zero times a value is not zero where it is infinite or NaN.
  Block flagged(const Operand& o, const Expr& q) const {
    nest::If unusual;
    Body& b = unusual.predicate;
    NodeId zero = b.real(0, o.type), sum = zero;
    for (int64_t v = 0; v < o.vector; ++v) {
      unusual.loads.push_back(held_at(o, q, Expr(v)));
      sum = b.operation(Op::fma, {b.load(static_cast<int>(v), o.type), zero, sum}, o.type);
    }
    b.results = {b.operation(Op::ne, {sum, zero}, DType::bool_)};
    unusual.then = {flag_store(1)};
    return {statement(std::move(unusual))};
  }

  // Some condition makes the other factor zero, but not this one.
  bool meets_zeros(const Operand& o) const {
    const std::vector<size_t>& other = *(&o == &x_ ? y_ : x_).conditions;
    const std::vector<size_t>& own = *o.conditions;
    return std::any_of(other.begin(), other.end(),
                       [&](size_t i) { return std::find(own.begin(), own.end(), i) == own.end(); });
  }

  // Writes what the registers hold to the shared tile.
  Block staged(const Operand& o, const Expr& buffer, const Expr& t) {
    return moved(o, t, [&](const Expr& q, const Expr& term, const Expr& owner) {
      auto place = [&](const Expr& v) {
        Expr k = o.along_k ? tidy(Expr(o.vector) * term + v) : term;
        Expr cell = o.along_k ? owner : tidy(Expr(o.vector) * owner + v);
        return nest::Access{o.staged, {buffer, k, cell}, {}};
      };
      Block out = vector_lanes("v", o.vector, [&](const Expr& v) {
        return Block{p_.copied(place(v), held_at(o, q, v))};
      });
      if (flag_ >= 0 && meets_zeros(o)) append(out, flagged(o, q));
      return out;
    });
  }

  // A thread's cells come in quads, spread over the tile so that neighbouring threads hold
  // neighbouring quads.
  static Expr spread(const Expr& quad, const Expr& i, const Expr& place, int64_t tile,
                     int64_t quads) {
    return tidy(Expr(tile / quads) * quad + Expr(kQuad) * place + i);
  }

  Block over_tile(const std::function<Block(const State&)>& body) const {
    return looped("i", g_.thread_m, LoopKind::unrolled, [&](const Expr& i) {
      return looped("j", g_.thread_n, LoopKind::unrolled, [&](const Expr& j) {
        State s;
        s.tile_index = {i, j};
        return body(s);
      });
    });
  }

  Block near(const Operand& o, int buffer, const Expr& now, const Expr& k, const Expr& place,
             int64_t cells) const {
    int64_t quads = cells / kQuad;
    return looped("quad", quads, LoopKind::unrolled, [&](const Expr& quad) {
      return vector_lanes("v", kQuad, [&](const Expr& v) {
        nest::Access from{o.staged, {now, k, spread(quad, v, place, o.tile, quads)}, {}};
        nest::Access to{buffer, {tidy(Expr(kQuad) * quad + v)}, {}};
        return Block{p_.copied(std::move(to), std::move(from))};
      });
    });
  }

  nest::Statement product(const State& cell) const {
    nest::Store store;
    store.kind = nest::StoreKind::fma;
    store.target = p_.accumulator(0, cell);
    store.loads = {{x_near_, {cell.tile_index[0]}, {}}, {y_near_, {cell.tile_index[1]}, {}}};
    store.body.results = {store.body.load(0, x_.type), store.body.load(1, y_.type)};
    return statement(std::move(store));
  }

  // The products of one term, to and fro, so that neighbours share a factor. A register file has
  // few ports: what is read again at once costs none of them. Tiles of other shapes than a square
  // are walked in bands of a quad along their longer side.
  Block products() const {
    bool tall = g_.thread_m >= g_.thread_n;
    int64_t along = std::max(g_.thread_m, g_.thread_n), across = std::min(g_.thread_m, g_.thread_n);
    int64_t band = along == across ? across : kQuad;
    auto line = [&](int64_t first, const Expr& place, bool back) {
      return looped("to", band, LoopKind::unrolled, [&](const Expr& to) {
        Expr other = tidy(Expr(first) + (back ? Expr(band - 1) - to : to));
        State cell;
        cell.tile_index = tall ? std::vector<Expr>{place, other} : std::vector<Expr>{other, place};
        return Block{product(cell)};
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

  Block multiplied(const State& s, const std::vector<Expr>& at, const Expr& row, const Expr& column,
                   const Expr& now, const Expr& step) {
    auto terms = [&](LoopKind kind, const std::function<Block(const Expr&)>& body) {
      return looped("term", g_.k, kind, [&](const Expr& k) {
        Block out = near(x_, x_near_, now, k, row, g_.thread_m);
        append(out, near(y_, y_near_, now, k, column, g_.thread_n));
        append(out, body(k));
        return out;
      });
    };
    Block fast = terms(LoopKind::unrolled, [&](const Expr&) { return products(); });
    if (flag_ < 0) return fast;
    nest::If choice;
    choice.loads = {{flag_, {Expr(0)}, {}}};
    NodeId flag = choice.predicate.load(0, DType::i32);
    NodeId zero = choice.predicate.integer(0, DType::i32);
    choice.predicate.results = {choice.predicate.operation(Op::eq, {flag, zero}, DType::bool_)};
    choice.then = std::move(fast);
    choice.otherwise = terms(LoopKind::serial, [&](const Expr& k) {
      return guarded_products(s, at, row, column, tidy(Expr(g_.k) * step + k));
    });
    return {statement(std::move(choice))};
  }

  // The products of one term whose points are in the domain.
  Block guarded_products(const State& s, const std::vector<Expr>& at, const Expr& row,
                         const Expr& column, const Expr& k) {
    return p_.decoded(form_.k, s, k, 1, 0, "k", [&](const State& sk) {
      return over_cells(
          sk, at, row, column,
          [&](const State& cell) {
            std::vector<Expr> tests;
            for (const Operand* o : {&x_, &y_}) {
              std::vector<Expr> more = factor_tests(*o, cell);
              tests.insert(tests.end(), more.begin(), more.end());
            }
            return only_if(std::move(tests), {product(cell)});
          },
          false);
    });
  }

  // The thread's cells of the output, without those outside; `vector`: neighbours along n together.
  Block over_cells(const State& s, const std::vector<Expr>& at, const Expr& row, const Expr& column,
                   const std::function<Block(const State&)>& body, bool vector) {
    int64_t rows = g_.thread_m / kQuad, columns = g_.thread_n / kQuad;
    int64_t lanes = vector && form_.n.fastest % kQuad == 0 ? kQuad : 1;
    bool m_border = form_.m.count % g_.m != 0, n_border = form_.n.count % g_.n != 0;
    auto across = [&](const State& sm, const Expr& i) {
      return looped("quad_j", columns, LoopKind::unrolled, [&](const Expr& quad) {
        return looped("j", kQuad / lanes, LoopKind::unrolled, [&](const Expr& j) {
          Expr first = tidy(Expr(g_.n) * at[3] + spread(quad, j, column, g_.n, columns));
          Expr group = lanes == 1 ? first : divided(first, lanes);
          Expr lane = lanes == 1 ? Expr(0) : Expr::variable("v");
          std::vector<Expr> inside;
          if (n_border) inside.push_back(tidy(Expr(form_.n.count / lanes - 1) - group));
          return only_if(inside,
                         p_.decoded(form_.n, sm, group, lanes, lane, "n", [&](const State& sn) {
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
        Expr m = tidy(Expr(g_.m) * at[2] + spread(quad, i, row, g_.m, rows));
        std::vector<Expr> inside;
        if (m_border) inside.push_back(tidy(Expr(form_.m.count - 1) - m));
        return only_if(inside, p_.decoded(form_.m, s, m, 1, 0, "m", [&](const State& sm) {
          return across(sm, tidy(Expr(kQuad) * quad + i));
        }));
      });
    });
  }

  Block finish(const State& s, const std::vector<Expr>& at, const Expr& row, const Expr& column) {
    return over_cells(
        s, at, row, column,
        [&](const State& cell) {
          if (g_.split == 1) return p_.owned_results(cell);
          nest::Access to{parts_[0], {at[0], position(cell)}, {}};
          return Block{p_.copied(std::move(to), p_.accumulator(0, cell))};
        },
        true);
  }

  // The cell's place in the parts of a split.
  Expr position(const State& cell) const {
    Expr at = 0;
    for (size_t u : cells_.unknowns) at = tidy(Expr(p_.piece_.box[u]) * at + cell.at[u].begin());
    return at;
  }

  PieceLowering& p_;
  const GpuMatrix& g_;
  MatrixForm form_;
  FlatIndex cells_;
  Operand x_, y_;
  int64_t threads_ = 0, steps_ = 0, chunk_ = 0;
  int flag_ = -1, x_near_ = -1, y_near_ = -1;
  std::vector<int> parts_;
};

Block PieceLowering::gpu_matrix(const GpuMatrix& g) { return MatrixLowering(*this, g).run(); }

}  // namespace tile::lowering
