// GPU forms of a piece: what they share, and reductions spread over the threads of a block.
#include "core/lower/gpu/spread_lowering.h"

#include "core/lower/gpu/gpu_lowering.h"

namespace tile::lowering {

using gpu::FlatIndex;
using nest::Block;
using nest::LoopKind;

namespace {

constexpr int64_t kUnrolledSteps = 4;
constexpr int64_t kTreeWidth = 16;  // partial results that one thread adds up

}  // namespace

// The iterators of `index` at position quotient * vector + lane.
Block decoded(const PieceContext& c, const FlatIndex& index, const State& s, const Expr& quotient,
              int64_t vector, const Expr& lane, const std::string& prefix, const Leaf& inside) {
  std::function<Block(size_t, Expr, const State&)> from = [&](size_t left, const Expr& rest,
                                                              const State& at) -> Block {
    if (left == 0) return inside(at);
    size_t u = index.iterators[left - 1];
    bool last = left == index.iterators.size();
    int64_t extent = c.piece.box[u] / (last ? vector : 1);
    Expr digit = left == 1 ? rest : floor_mod(rest, Expr(extent));
    if (extent == 1 && left > 1) digit = 0;
    return bound_to(prefix + "_" + c.names[u], digit, [&](const Expr& value) {
      State inner = at;
      Expr whole = last ? tidy(Expr(vector) * value + lane) : value;
      inner.at[u].levels = {{1, whole}};
      inner.at[u].size = 1;
      inner.at[u].bound = 1;
      if (left == 1) return inside(inner);
      return bound_to(prefix + "_" + c.names[u] + "_rest", floor_div(rest, Expr(extent)),
                      [&](const Expr& next) { return from(left - 1, next, inner); });
    });
  };
  return from(index.iterators.size(), quotient, s);
}

// The lanes' accumulators go through shared memory: first kTreeWidth lanes add up all, then one.
Block SpreadLowering::combine_lanes(const Spread& p, const Expr& parallel_dim,
                                    const Expr& lane) const {
  Block out;
  if (p.lanes == 1) return out;
  for (size_t o = 0; o < c_.contraction.outputs.size(); ++o) {
    auto register_at = [&](const Expr& v) {
      State s;
      s.tile_index = {v};
      return accumulators_.accumulator(o, s);
    };
    auto shared_at = [&](const Expr& row, const Expr& v) {
      std::vector<Expr> index{row, tidy(Expr(p.cells) * parallel_dim + v)};
      if (p.block) index.insert(index.begin(), *p.block);
      return nest::Access{p.shared[o], std::move(index), {}};
    };
    auto each_cell = [&](const std::function<nest::Statement(const Expr&)>& make) {
      return vector_lanes("cell", p.cells, [&](const Expr& v) { return Block{make(v)}; });
    };
    append(out, each_cell([&](const Expr& v) {
             return terms_.copied(shared_at(lane, v), register_at(v));
           }));
    out.push_back({nest::Sync{}});
    for (int64_t rows = p.lanes; rows > 1;) {
      int64_t next = rows > kTreeWidth ? kTreeWidth : 1;
      Block sum = looped("row", 1, rows / next - 1, LoopKind::serial, [&](const Expr& q) {
        return each_cell([&](const Expr& v) {
          return terms_.combined(register_at(v), shared_at(tidy(lane + Expr(next) * q), v));
        });
      });
      append(out, only_if({tidy(Expr(next - 1) - lane)}, std::move(sum)));
      out.push_back({nest::Sync{}});
      rows = next;
      if (rows == 1) break;
      append(out, only_if({tidy(Expr(next - 1) - lane)}, each_cell([&](const Expr& v) {
                            return terms_.copied(shared_at(lane, v), register_at(v));
                          })));
      out.push_back({nest::Sync{}});
    }
  }
  return out;
}

// What thread `lane` of the parallel dimension `at[2]` of a block does; `at`: the part of the
// reduction, the block, the parallel dimension in the block, and the lane.
Block SpreadLowering::thread_body(const Spread& p, const std::vector<Expr>& at,
                                  const SpreadPart& reduce, const SpreadPart& finish) const {
  const Expr &part = at[0], &parallel_dim = at[2], &lane = at[3];
  int64_t groups = p.count / p.cells;
  Expr group = tidy(Expr(p.parallel_dims) * at[1] + parallel_dim);
  std::vector<Expr> inside;
  if (groups % p.parallel_dims != 0) inside.push_back(tidy(Expr(groups - 1) - group));
  Block body = results_.allocations();
  for (size_t o = 0; o < c_.contraction.outputs.size(); ++o) {
    append(body,
           vector_lanes("first", c_.tile_shape.empty() ? 1 : c_.tile_shape[0], [&](const Expr& v) {
             State s;
             s.tile_index = {v};
             return Block{statement(accumulators_.neutral_store(accumulators_.accumulator(o, s)))};
           }));
  }
  append(body, only_if(inside, reduce(part, group, lane)));
  append(body, combine_lanes(p, parallel_dim, lane));
  if (p.lanes > 1) inside.push_back(-lane);
  append(body, only_if(inside, finish(part, group, lane)));
  return body;
}

Block SpreadLowering::spread_launch(Spread p, const std::string& name, const SpreadPart& reduce,
                                    const SpreadPart& finish) const {
  int64_t groups = p.count / p.cells, blocks = ceil_div(groups, p.parallel_dims);
  p.shared.clear();
  for (size_t o = 0; o < c_.contraction.outputs.size() && p.lanes > 1; ++o) {
    p.shared.push_back(c_.frame.add_buffer("lanes", c_.contraction.accumulator, nest::Scope::shared,
                                           {p.lanes, p.parallel_dims * p.cells}));
  }
  int64_t slow = p.parallel_dims_fastest ? p.parallel_dims : p.lanes;
  auto in_block = [&](const Expr& b, const Expr& t) {
    Expr part = p.split == 1 ? Expr(0) : floor_div(b, Expr(blocks));
    Expr block = p.split == 1 ? b : floor_mod(b, Expr(blocks));
    std::vector<Expr> at(4);
    auto thread = [&](const Expr& other) {
      at[p.parallel_dims_fastest ? 3 : 2] = other;
      return thread_body(p, at, reduce, finish);
    };
    auto fast = [&](const Expr& value) {
      at[p.parallel_dims_fastest ? 2 : 3] = value;
      return bound_to(name + "_slow", floor_div(t, Expr(slow)), thread);
    };
    auto of_group = [&](const Expr& group) {
      at[1] = group;
      return bound_to(name + "_fast", floor_mod(t, Expr(slow)), fast);
    };
    return bound_to(name + "_part", part, [&](const Expr& value) {
      at[0] = value;
      return bound_to(name + "_group", block, of_group);
    });
  };
  return looped(name + "_block", 0, blocks * p.split, LoopKind::grid, [&](const Expr& b) {
    Block body;
    for (nest::BufferId id : p.shared) body.push_back({nest::Alloc{id}});
    append(body, looped(name + "_thread", 0, p.parallel_dims * p.lanes, LoopKind::thread,
                        [&](const Expr& t) { return in_block(b, t); }));
    return body;
  });
}

// Every lanes-th group of neighbours among the terms of one part.
Block SpreadLowering::spread_terms(const Spread& p, const Expr& part, const Expr& lane,
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

// What a thread adds up of the terms of a group of cells.
Block SpreadLowering::reduced_terms(const GpuReduction& g, const Spread& p, const Expr& part,
                                    const Expr& group, const Expr& lane) const {
  FlatIndex parallel_dims = gpu::flat_parallel_dims(c_.piece, c_.frame.kernel);
  FlatIndex terms = gpu::flat_reductions(c_.piece, c_.frame.kernel);
  Expr v = g.vector == 1 ? Expr(0) : Expr::variable("near");
  Expr parallel_dim_lane = g.vector_parallel_dims ? v : Expr(0);
  Expr term_lane = g.vector_parallel_dims ? Expr(0) : v;
  auto add = [&](const State& at) {
    return vector_lanes("near", g.vector, [&](const Expr& near) {
      State point = at;
      point.tile_index = {near};
      point.guards = Guards::points;
      return terms_.accumulate_everywhere(point);
    });
  };
  auto cell = [&](const State& s) {
    return spread_terms(p, part, lane, [&](const Expr& quotient) {
      return decoded(c_, terms, s, quotient, p.neighbours, term_lane, "r", add);
    });
  };
  Block body =
      decoded(c_, parallel_dims, c_.whole_box(), group, p.cells, parallel_dim_lane, "o", cell);
  append(body, combined_neighbours(p));
  return body;
}

// A thread's accumulators for neighbouring terms, added into the first.
Block SpreadLowering::combined_neighbours(const Spread& p) const {
  if (p.neighbours == 1) return {};
  State first;
  first.tile_index = {Expr(0)};
  return looped("near", 1, p.neighbours - 1, LoopKind::unrolled, [&](const Expr& near) {
    State other;
    other.tile_index = {near};
    Block sums;
    for (size_t o = 0; o < c_.contraction.outputs.size(); ++o) {
      sums.push_back(terms_.combined(accumulators_.accumulator(o, first),
                                     accumulators_.accumulator(o, other)));
    }
    return sums;
  });
}

Block SpreadLowering::gpu_reduction(const GpuReduction& g) {
  FlatIndex parallel_dims = gpu::flat_parallel_dims(c_.piece, c_.frame.kernel);
  Spread p;
  p.count = parallel_dims.count;
  p.terms = gpu::flat_reductions(c_.piece, c_.frame.kernel).count;
  p.parallel_dims = g.parallel_dims;
  p.lanes = g.lanes;
  p.cells = g.vector_parallel_dims ? g.vector : 1;
  p.neighbours = g.vector_parallel_dims ? 1 : g.vector;
  p.parallel_dims_fastest = g.parallel_dims_fastest;
  p.split = g.split;
  Block out;
  std::vector<nest::BufferId> parts = split_buffers(p.split, p.count, out);
  auto reduce = [&](const Expr& part, const Expr& group, const Expr& lane) {
    return reduced_terms(g, p, part, group, lane);
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
std::vector<nest::BufferId> SpreadLowering::split_buffers(int64_t split, int64_t cells,
                                                          Block& out) const {
  std::vector<nest::BufferId> ids;
  for (size_t o = 0; o < c_.contraction.outputs.size() && split > 1; ++o) {
    ids.push_back(c_.frame.add_buffer("parts", c_.contraction.accumulator, nest::Scope::workspace,
                                      {split, cells}));
    out.push_back({nest::Alloc{ids.back()}});
  }
  return ids;
}

Block SpreadLowering::store_parts(const std::vector<nest::BufferId>& parts, const Expr& part,
                                  const Expr& group, int64_t cells) const {
  Block out;
  for (size_t o = 0; o < parts.size(); ++o) {
    append(out, vector_lanes("cell", cells, [&](const Expr& v) {
             State s;
             s.tile_index = {v};
             nest::Access to{parts[o], {part, tidy(Expr(cells) * group + v)}, {}};
             return Block{terms_.copied(std::move(to), accumulators_.accumulator(o, s))};
           }));
  }
  return out;
}

Block SpreadLowering::spread_results(const FlatIndex& parallel_dims, const Expr& group,
                                     int64_t cells) const {
  Expr lane = cells == 1 ? Expr(0) : Expr::variable("cell");
  return decoded(c_, parallel_dims, c_.whole_box(), group, cells, lane, "o", [&](const State& s) {
    return vector_lanes("cell", cells, [&](const Expr& v) {
      State at = s;
      at.tile_index = {v};
      return results_.owned_results(at);
    });
  });
}

void SpreadLowering::cells_of_a_thread(int64_t cells) {
  c_.tile_shape.clear();
  if (cells > 1) c_.tile_shape = {cells};
  accumulators_.use({});
  accumulators_.make();
  results_.forget_attached();
  results_.find_attached();
}

// The second launch of a split reduction.
Block SpreadLowering::combine_parts(const FlatIndex& parallel_dims,
                                    const std::vector<nest::BufferId>& parts, int64_t split) {
  cells_of_a_thread(1);
  Spread p;
  p.count = parallel_dims.count;
  p.terms = split;
  p.parallel_dims_fastest = true;
  int64_t threads = 256;
  while (p.lanes < threads && 2 * p.lanes <= split &&
         p.count * p.lanes < threads * 2 * c_.frame.target.gpu.multiprocessors) {
    p.lanes *= 2;
  }
  p.parallel_dims = threads / p.lanes;
  auto reduce = [&](const Expr&, const Expr& group, const Expr& lane) {
    return spread_terms(p, 0, lane, [&](const Expr& term) {
      Block sums;
      for (size_t o = 0; o < parts.size(); ++o) {
        State s;
        s.tile_index = {Expr(0)};
        sums.push_back(
            terms_.combined(accumulators_.accumulator(o, s), {parts[o], {term, group}, {}}));
      }
      return sums;
    });
  };
  return spread_launch(p, "combine", reduce, [&](const Expr&, const Expr& group, const Expr&) {
    return spread_results(parallel_dims, group, 1);
  });
}

Block lower_gpu_reduction(TileParts& parts, const GpuReduction& g) {
  return SpreadLowering(parts).gpu_reduction(g);
}

namespace {

// The cells of a thread, which hold its accumulators.
struct ThreadCells {
  Shape operator()(const SimtGemm& g) const { return {g.thread_m, g.thread_n}; }
  Shape operator()(const GpuReduction& g) const { return g.vector > 1 ? Shape{g.vector} : Shape{}; }
  Shape operator()(const GpuScan& g) const { return scan_shape(g); }
  Shape operator()(const auto&) const { return {}; }
};

struct FormLowering {
  TileParts& parts;
  Block operator()(const TensorCoreGemm& g) const { return lower_tensor_core_gemm(parts, g); }
  Block operator()(const SimtGemm& g) const { return lower_simt_gemm(parts, g); }
  Block operator()(const GpuReduction& g) const { return lower_gpu_reduction(parts, g); }
  Block operator()(const GpuScan& g) const { return lower_gpu_scan(parts, g); }
  Block operator()(const GpuTranspose& g) const { return lower_gpu_transpose(parts, g); }
  Block operator()(const std::monostate&) const { throw InternalError("lower: no GPU form"); }
};

}  // namespace

Block lower_gpu_form(PieceLowering& piece) {
  TileParts& parts = piece.parts();
  const GpuForm& form = parts.context.schedule.gpu_form;
  if (!std::holds_alternative<TensorCoreGemm>(form)) {
    if (piece.is_empty()) return {};
    Shape cells = std::visit(ThreadCells{}, form);
    if (!cells.empty()) parts.context.tile_shape = cells;
    Block unused;  // these forms have no loops outside of which buffers could live
    piece.prepare(unused);
  }
  return std::visit(FormLowering{parts}, form);
}

}  // namespace tile::lowering
