// Loops over blocks of run-time sizes.
#include "core/lower/piece/parametric_lowering.h"

namespace tile::lowering {

namespace {

Expr given(const std::string& prefix, const std::string& name) {
  return Expr::variable(prefix + name);
}

std::string prefix_of(size_t stage, size_t piece) {
  return "stage" + std::to_string(stage) + "_piece" + std::to_string(piece) + "_";
}
// Of the parameters of the parallel dimension of the i-th loop.
std::string parallel_dim_prefix(const std::string& prefix, size_t i) {
  return prefix + "dim" + std::to_string(i) + "_";
}

std::string loop_name(const std::string& prefix, const char* name, size_t i) {
  return prefix + name + std::to_string(i);
}

}  // namespace

void Frame::take_form(const SharedForm& shared) {
  form = &shared;
  for (size_t s = 0; s < shared.blocks.size(); ++s) {
    for (size_t p = 0; p < shared.blocks[s].size(); ++p) {
      size_t loops = shared.blocks[s][p];
      if (loops == 0) continue;
      std::string prefix = prefix_of(s, p);
      for (const char* name : {"chunks", "share", "blocks"}) {
        nest.parameters.push_back({prefix + name, 1, kMostParametricTiles});
      }
      for (size_t i = 0; i + 1 < loops; ++i) {
        nest.parameters.push_back({loop_name(prefix, "inside", i), 1, kMostParametricTiles});
      }
      const std::vector<Loop>& outer = shared.schedule.stages[s][p].outer;
      for (size_t i = 0; i < loops; ++i) {
        std::string own = parallel_dim_prefix(prefix, i);
        int64_t unit = tile_cells(outer, outer[i].iterator);
        int64_t most = ceil_div(outer[i].step, unit);
        nest.parameters.push_back({own + "tiles", 1, most});
        for (size_t j = 0; j < loops; ++j) {
          nest.parameters.push_back({loop_name(own, "moves", j), 0, most});
        }
      }
    }
  }
}

nest::Block ParametricLowering::parametric_tiling(const Leaf& inside) {
  State s = c_.whole_box();
  nest::Block out;
  for (const Packing& p : c_.schedule.packings) {
    if (p.level == 0) append(out, packing_.pack(p, s));
  }
  std::string prefix = prefix_of(c_.stage, c_.number_in_stage);
  Expr first = given(prefix, "share") * Expr::variable("task");
  nest::For blocks =
      make_loop("block", first, min(given(prefix, "share"), given(prefix, "blocks") - first),
                nest::LoopKind::serial);
  blocks.body = position_in_blocks(Expr::variable("block"), {}, s, inside);
  bool threads = c_.schedule.outer[0].binding == Binding::parallel;
  nest::For tasks = make_loop("task", 0, given(prefix, "chunks"),
                              threads ? nest::LoopKind::parallel : nest::LoopKind::serial);
  tasks.body = {statement(std::move(blocks))};
  out.push_back(statement(std::move(tasks)));
  return out;
}

// The position of the next loop, which `rest` begins with, and of those behind it.
nest::Block ParametricLowering::position_in_blocks(const Expr& rest, std::vector<Expr> at,
                                                   const State& s, const Leaf& inside) const {
  size_t i = at.size();
  if (i + 1 == c_.parametric_tiling) {
    at.push_back(rest);
    return block_of_parallel_dim(0, at, s, inside);
  }
  Expr behind = given(prefix_of(c_.stage, c_.number_in_stage), loop_name("", "inside", i));
  return bound_to(loop_name("", "at", i), trunc_div(rest, behind), [&](const Expr& value) {
    std::vector<Expr> known = at;
    known.push_back(value);
    return bound_to(loop_name("", "rest", i), rest - behind * value, [&](const Expr& left) {
      return position_in_blocks(left, std::move(known), s, inside);
    });
  });
}

// The block of the parallel dimension of the i-th loop and of those behind it; then what is inside
// them all.
nest::Block ParametricLowering::block_of_parallel_dim(size_t i, const std::vector<Expr>& at,
                                                      const State& s, const Leaf& inside) const {
  if (i == c_.parametric_tiling) return inside(s);
  const Loop& l = c_.schedule.outer[i];
  IteratorId u = l.iterator;
  int64_t unit = tile_cells(c_.schedule.outer, l.iterator);
  std::string own = parallel_dim_prefix(prefix_of(c_.stage, c_.number_in_stage), i);
  Expr tile = 0;
  for (size_t j = 0; j < at.size(); ++j)
    tile = tile + given(own, loop_name("", "moves", j)) * at[j];
  // The bound, which holds anyway, is for the proofs that need one.
  tile = min(tile, Expr(ceil_div(c_.piece.box[u], unit) - 1));
  return bound_to(c_.variable(l.iterator, s), tile, [&](const Expr& value) {
    State inner = s;
    Position& p = inner.at[u];
    p.levels.push_back({unit, value});
    p.size = min(tidy(Expr(unit) * given(own, "tiles")),
                 tidy(Expr(c_.piece.box[u]) - Expr(unit) * value));
    p.bound = l.step;
    return block_of_parallel_dim(i + 1, at, inner, inside);
  });
}

// The place among the loops over blocks of the parallel dimension of an outer loop behind them.
std::optional<size_t> ParametricLowering::parametric_tile_of(size_t outer) const {
  for (size_t i = 0; i < c_.parametric_tiling && outer >= c_.parametric_tiling; ++i) {
    if (c_.schedule.outer[i].iterator == c_.schedule.outer[outer].iterator) return i;
  }
  return std::nullopt;
}

// The tiles of a block: whole ones, and in the last block what the box's end leaves of one.
nest::Block ParametricLowering::tiles_of_block(size_t outer, size_t block, const State& s,
                                               const Leaf& inside) const {
  const Loop& l = c_.schedule.outer[outer];
  IteratorId u = l.iterator;
  const Expr& first = s.at[u].levels.back().value;
  Expr tiles = given(parallel_dim_prefix(prefix_of(c_.stage, c_.number_in_stage), block), "tiles");
  Expr whole = Expr(c_.piece.box[u] / l.step) - first;
  int64_t rest = c_.piece.box[u] % l.step;
  auto tile_at = [&](const Expr& value, int64_t size) {
    State inner = s;
    Position& p = inner.at[u];
    p.levels.push_back({l.step, value});
    p.size = size;
    p.bound = l.step;
    return inside(inner);
  };
  std::string name = c_.variable(l.iterator, s);
  nest::For loop = make_loop(name, 0, min(tiles, tidy(whole)), nest::LoopKind::serial);
  loop.body = tile_at(Expr::variable(name), l.step);
  nest::Block out{statement(std::move(loop))};
  if (rest > 0) {
    append(out, only_if({tidy(tiles - whole - Expr(1))}, tile_at(tidy(whole), rest)));
  }
  return out;
}

}  // namespace tile::lowering
