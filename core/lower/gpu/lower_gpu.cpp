// GPU forms of a piece: what they share, and reductions spread over the threads of a block.
#include "core/kernel/forms/gpu_forms.h"
#include "core/lower/piece/lowering.h"

namespace tile::lowering {

using gpu::FlatIndex;
using nest::Block;
using nest::LoopKind;

namespace {

constexpr int64_t kUnrolledSteps = 4;
constexpr int64_t kTreeWidth = 16;  // partial results that one thread adds up

}  // namespace

// The iterators of `index` at position quotient * vector + lane.
Block PieceLowering::decoded(const FlatIndex& index, const State& s, const Expr& quotient,
                             int64_t vector, const Expr& lane, const std::string& prefix,
                             const std::function<Block(const State&)>& inside) const {
  std::function<Block(size_t, Expr, const State&)> from = [&](size_t left, const Expr& rest,
                                                              const State& at) -> Block {
    if (left == 0) return inside(at);
    size_t u = index.iterators[left - 1];
    bool last = left == index.iterators.size();
    int64_t extent = piece_.box[u] / (last ? vector : 1);
    Expr digit = left == 1 ? rest : floor_mod(rest, Expr(extent));
    if (extent == 1 && left > 1) digit = 0;
    return bound_to(prefix + "_" + names_[u], digit, [&](const Expr& value) {
      State inner = at;
      Expr whole = last ? tidy(Expr(vector) * value + lane) : value;
      inner.at[u].levels = {{1, whole}};
      inner.at[u].size = 1;
      inner.at[u].bound = 1;
      if (left == 1) return inside(inner);
      return bound_to(prefix + "_" + names_[u] + "_rest", floor_div(rest, Expr(extent)),
                      [&](const Expr& next) { return from(left - 1, next, inner); });
    });
  };
  return from(index.iterators.size(), quotient, s);
}

// What the parallel dimensions' own conditions leave of the results.
Block PieceLowering::owned_results(const State& s) {
  std::vector<Expr> tests;
  for (const PlacedConstraint& p : constraints_) {
    if (!p.parallel_dims_only) continue;
    std::vector<Expr> more =
        conditions(*p.constraint, piece_, [&](const Affine& form) { return value_of(form, s); });
    tests.insert(tests.end(), more.begin(), more.end());
  }
  State at = s;
  at.guards = Guards::none;
  return only_if(std::move(tests), results(at));
}

// target = target combined with `from`.
nest::Statement PieceLowering::combined(nest::Access target, nest::Access from) const {
  nest::Store store;
  store.target = std::move(target);
  store.kind = store_kind(contraction_.aggregation, contraction_.accumulator);
  store.loads = {std::move(from)};
  store.body.results = {store.body.load(0, contraction_.accumulator)};
  return statement(std::move(store));
}

nest::Statement PieceLowering::copied(nest::Access target, nest::Access from) const {
  nest::Store store;
  store.target = std::move(target);
  store.loads = {std::move(from)};
  store.body.results = {store.body.load(0, contraction_.accumulator)};
  return statement(std::move(store));
}

// The lanes' accumulators go through shared memory: first kTreeWidth lanes add up all, then one.
Block PieceLowering::combine_lanes(const Spread& p, const Expr& parallel_dim, const Expr& lane) {
  Block out;
  if (p.lanes == 1) return out;
  for (size_t o = 0; o < contraction_.outputs.size(); ++o) {
    auto register_at = [&](const Expr& v) {
      State s;
      s.tile_index = {v};
      return accumulator(o, s);
    };
    auto shared_at = [&](const Expr& row, const Expr& v) {
      std::vector<Expr> index{row, tidy(Expr(p.cells) * parallel_dim + v)};
      if (p.block) index.insert(index.begin(), *p.block);
      return nest::Access{p.shared[o], std::move(index), {}};
    };
    auto each_cell = [&](const std::function<nest::Statement(const Expr&)>& make) {
      return vector_lanes("cell", p.cells, [&](const Expr& v) { return Block{make(v)}; });
    };
    append(out,
           each_cell([&](const Expr& v) { return copied(shared_at(lane, v), register_at(v)); }));
    out.push_back({nest::Sync{}});
    for (int64_t rows = p.lanes; rows > 1;) {
      int64_t next = rows > kTreeWidth ? kTreeWidth : 1;
      Block sum = looped("row", 1, rows / next - 1, LoopKind::serial, [&](const Expr& q) {
        return each_cell([&](const Expr& v) {
          return combined(register_at(v), shared_at(tidy(lane + Expr(next) * q), v));
        });
      });
      append(out, only_if({tidy(Expr(next - 1) - lane)}, std::move(sum)));
      out.push_back({nest::Sync{}});
      rows = next;
      if (rows == 1) break;
      append(out, only_if({tidy(Expr(next - 1) - lane)}, each_cell([&](const Expr& v) {
                            return copied(shared_at(lane, v), register_at(v));
                          })));
      out.push_back({nest::Sync{}});
    }
  }
  return out;
}

// One launch of blocks with (cells of the parallel dimensions) * lanes threads. `reduce` makes what
// one thread adds to its accumulators for a group of cells, `finish` what lane 0 does with the
// sums.
Block PieceLowering::spread_launch(Spread p, const std::string& name, const SpreadPart& reduce,
                                   const SpreadPart& finish) {
  int64_t groups = p.count / p.cells, blocks = ceil_div(groups, p.parallel_dims);
  Block out;
  p.shared.clear();
  for (size_t o = 0; o < contraction_.outputs.size() && p.lanes > 1; ++o) {
    p.shared.push_back(frame_.add_buffer("lanes", contraction_.accumulator, nest::Scope::shared,
                                         {p.lanes, p.parallel_dims * p.cells}));
  }
  auto thread_body = [&](const Expr& part, const Expr& block, const Expr& parallel_dim,
                         const Expr& lane) {
    Expr group = tidy(Expr(p.parallel_dims) * block + parallel_dim);
    std::vector<Expr> inside;
    if (groups % p.parallel_dims != 0) inside.push_back(tidy(Expr(groups - 1) - group));
    Block body = allocations();
    for (size_t o = 0; o < contraction_.outputs.size(); ++o) {
      append(body,
             vector_lanes("first", tile_shape_.empty() ? 1 : tile_shape_[0], [&](const Expr& v) {
               State s;
               s.tile_index = {v};
               return Block{statement(neutral_store(accumulator(o, s)))};
             }));
    }
    append(body, only_if(inside, reduce(part, group, lane)));
    append(body, combine_lanes(p, parallel_dim, lane));
    if (p.lanes > 1) inside.push_back(-lane);
    append(body, only_if(inside, finish(part, group, lane)));
    return body;
  };
  return looped(name + "_block", 0, blocks * p.split, LoopKind::grid, [&](const Expr& b) {
    Block body;
    for (int id : p.shared) body.push_back({nest::Alloc{id}});
    int64_t slow = p.parallel_dims_fastest ? p.parallel_dims : p.lanes;
    append(body, looped(name + "_thread", 0, p.parallel_dims * p.lanes, LoopKind::thread,
                        [&](const Expr& t) {
                          Expr part = p.split == 1 ? Expr(0) : floor_div(b, Expr(blocks));
                          Expr block = p.split == 1 ? b : floor_mod(b, Expr(blocks));
                          return bound_to(name + "_part", part, [&](const Expr& at) {
                            return bound_to(name + "_group", block, [&](const Expr& g) {
                              return bound_to(
                                  name + "_fast", floor_mod(t, Expr(slow)), [&](const Expr& fast) {
                                    return bound_to(name + "_slow", floor_div(t, Expr(slow)),
                                                    [&](const Expr& other) {
                                                      return p.parallel_dims_fastest
                                                                 ? thread_body(at, g, fast, other)
                                                                 : thread_body(at, g, other, fast);
                                                    });
                                  });
                            });
                          });
                        }));
    return body;
  });
}

// Every lanes-th group of neighbours among the terms of one part.
Block PieceLowering::spread_terms(const Spread& p, const Expr& part, const Expr& lane,
                                  const std::function<Block(const Expr&)>& term) const {
  int64_t groups = p.terms / p.neighbours, full = groups / p.lanes, rest = groups % p.lanes;
  int64_t chunk = ceil_div(ceil_div(full, p.split), kUnrolledSteps) * kUnrolledSteps;
  auto at = [&](const Expr& step) { return term(tidy(Expr(p.lanes) * step + lane)); };
  Expr begin = p.split == 1 ? Expr(0) : tidy(Expr(chunk) * part);
  Expr left_over = max(Expr(0), tidy(Expr(full) - begin));
  Expr count = p.split == 1 ? Expr(full) : min(Expr(chunk), left_over);
  Block out = bound_to("steps", count, [&](const Expr& n) {
    Expr rounds = floor_div(n, Expr(kUnrolledSteps));
    Block body = looped("round", 0, rounds, LoopKind::serial, [&](const Expr& r) {
      return looped("turn", 0, kUnrolledSteps, LoopKind::unrolled,
                    [&](const Expr& t) { return at(tidy(begin + Expr(kUnrolledSteps) * r + t)); });
    });
    Expr left = floor_mod(n, Expr(kUnrolledSteps));
    append(body, looped("left", 0, left, LoopKind::serial, [&](const Expr& r) {
             return bound_to("done", rounds, [&](const Expr& done) {
               return at(tidy(begin + Expr(kUnrolledSteps) * done + r));
             });
           }));
    return body;
  });
  if (rest == 0) return out;
  std::vector<Expr> last{tidy(Expr(rest - 1) - lane)};
  if (p.split > 1) last.push_back(tidy(part - Expr(p.split - 1)));
  append(out, only_if(std::move(last), at(Expr(full))));
  return out;
}

Block PieceLowering::gpu_reduction(const GpuReduction& g) {
  FlatIndex parallel_dims = gpu::flat_parallel_dims(piece_, frame_.kernel);
  FlatIndex terms = gpu::flat_reductions(piece_, frame_.kernel);
  Spread p;
  p.count = parallel_dims.count;
  p.terms = terms.count;
  p.parallel_dims = g.parallel_dims;
  p.lanes = g.lanes;
  p.cells = g.vector_parallel_dims ? g.vector : 1;
  p.neighbours = g.vector_parallel_dims ? 1 : g.vector;
  p.parallel_dims_fastest = g.parallel_dims_fastest;
  p.split = g.split;
  Block out;
  std::vector<int> parts = split_buffers(p.split, p.count, out);
  auto reduce = [&](const Expr& part, const Expr& group, const Expr& lane) {
    Expr v = g.vector == 1 ? Expr(0) : Expr::variable("near");
    Expr parallel_dim_lane = g.vector_parallel_dims ? v : Expr(0),
         term_lane = g.vector_parallel_dims ? Expr(0) : v;
    Block body = decoded(
        parallel_dims, whole_box(), group, p.cells, parallel_dim_lane, "o", [&](const State& s) {
          return spread_terms(p, part, lane, [&](const Expr& quotient) {
            return decoded(terms, s, quotient, p.neighbours, term_lane, "r", [&](const State& at) {
              return vector_lanes("near", g.vector, [&](const Expr& near) {
                State point = at;
                point.tile_index = {near};
                point.guards = Guards::points;
                return accumulate_everywhere(point);
              });
            });
          });
        });
    if (p.neighbours == 1) return body;
    State first;
    first.tile_index = {Expr(0)};
    append(body, looped("near", 1, p.neighbours - 1, LoopKind::unrolled, [&](const Expr& near) {
             State other;
             other.tile_index = {near};
             Block sums;
             for (size_t o = 0; o < contraction_.outputs.size(); ++o) {
               sums.push_back(combined(accumulator(o, first), accumulator(o, other)));
             }
             return sums;
           }));
    return body;
  };
  append(out,
         spread_launch(p, "reduce", reduce, [&](const Expr& part, const Expr& group, const Expr&) {
           return p.split == 1 ? spread_results(parallel_dims, group, p.cells)
                               : store_parts(parts, part, group, p.cells);
         }));
  if (p.split > 1) append(out, combine_parts(parallel_dims, parts, p.split));
  return out;
}

// Each part's results, [part][cell], in the accumulator's type.
std::vector<int> PieceLowering::split_buffers(int64_t split, int64_t cells, Block& out) {
  std::vector<int> ids;
  for (size_t o = 0; o < contraction_.outputs.size() && split > 1; ++o) {
    ids.push_back(frame_.add_buffer("parts", contraction_.accumulator, nest::Scope::workspace,
                                    {split, cells}));
    out.push_back({nest::Alloc{ids.back()}});
  }
  return ids;
}

Block PieceLowering::store_parts(const std::vector<int>& parts, const Expr& part, const Expr& group,
                                 int64_t cells) const {
  Block out;
  for (size_t o = 0; o < parts.size(); ++o) {
    append(out, vector_lanes("cell", cells, [&](const Expr& v) {
             State s;
             s.tile_index = {v};
             nest::Access to{parts[o], {part, tidy(Expr(cells) * group + v)}, {}};
             return Block{copied(std::move(to), accumulator(o, s))};
           }));
  }
  return out;
}

Block PieceLowering::spread_results(const FlatIndex& parallel_dims, const Expr& group,
                                    int64_t cells) {
  Expr lane = cells == 1 ? Expr(0) : Expr::variable("cell");
  return decoded(parallel_dims, whole_box(), group, cells, lane, "o", [&](const State& s) {
    return vector_lanes("cell", cells, [&](const Expr& v) {
      State at = s;
      at.tile_index = {v};
      return owned_results(at);
    });
  });
}

void PieceLowering::cells_of_a_thread(int64_t cells) {
  tile_shape_.clear();
  if (cells > 1) tile_shape_ = {cells};
  accumulators_.clear();
  make_accumulators();
  attached_.clear();
  register_values_.clear();
  find_attached();
}

// The second launch of a split reduction.
Block PieceLowering::combine_parts(const FlatIndex& parallel_dims, const std::vector<int>& parts,
                                   int64_t split) {
  cells_of_a_thread(1);
  Spread p;
  p.count = parallel_dims.count;
  p.terms = split;
  p.parallel_dims_fastest = true;
  int64_t threads = 256;
  while (p.lanes < threads && 2 * p.lanes <= split &&
         p.count * p.lanes < threads * 2 * frame_.target.gpu.multiprocessors) {
    p.lanes *= 2;
  }
  p.parallel_dims = threads / p.lanes;
  auto reduce = [&](const Expr&, const Expr& group, const Expr& lane) {
    return spread_terms(p, 0, lane, [&](const Expr& term) {
      Block sums;
      for (size_t o = 0; o < parts.size(); ++o) {
        State s;
        s.tile_index = {Expr(0)};
        sums.push_back(combined(accumulator(o, s), {parts[o], {term, group}, {}}));
      }
      return sums;
    });
  };
  return spread_launch(p, "combine", reduce, [&](const Expr&, const Expr& group, const Expr&) {
    return spread_results(parallel_dims, group, 1);
  });
}

// As accumulate, for forms whose loops enforce no condition.
Block PieceLowering::accumulate_everywhere(const State& s) {
  std::vector<Expr> tests;
  for (const Constraint& c : piece_.constraints) {
    std::vector<Expr> more =
        conditions(c, piece_, [&](const Affine& form) { return value_of(form, s); });
    tests.insert(tests.end(), more.begin(), more.end());
  }
  State at = s;
  at.guards = Guards::none;
  return only_if(std::move(tests), accumulate(at));
}

}  // namespace tile::lowering
