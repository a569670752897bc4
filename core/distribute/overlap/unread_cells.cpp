#include "core/distribute/overlap/unread_cells.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "core/distribute/needs.h"
#include "core/ir/analysis/uses.h"

namespace tile {
namespace {

// The cells of a tensor that statements read.
struct ReadCells {
  std::vector<Box> loads;       // of each load
  std::vector<Box> statements;  // that hold all that one reads, sharing no cell
};

// What a contraction reads of the tensor. False: that may be beyond its cells.
bool note_reads(const BoundProgram& program, const Contraction& c, TensorId id, ReadCells& reads) {
  Box whole = whole_box(program.tensors[id].shape);
  Box all{whole.lo, whole.lo};
  Box result = whole_box(program.tensors[c.outputs[0]].shape);
  for (const Piece& piece : c.pieces) {
    PieceNeeds needs = needs_of(program, piece, result, {});
    for (size_t l = 0; l < needs.loads.size() && !needs.empty; ++l) {
      const Box& box = needs.loads[l].box;
      if (piece.loads[l].tensor != id || box.empty()) continue;
      if (!contains(whole, box)) return false;
      reads.loads.push_back(box);
      all = hull(all, box);
    }
  }
  add_disjoint(reads.statements, all);
  return true;
}

// Nullopt: maybe all are read.
std::optional<ReadCells> read_cells(const RankProgram& rank, TensorId id) {
  const BoundProgram& program = rank.program;
  auto is_of = [&](TensorId other) { return storage_of(program, other) == id; };
  for (const PlacedExchange& exchange : rank.exchanges) {
    if (is_of(exchange.what.source)) return std::nullopt;
  }
  if (std::ranges::any_of(program.outputs, is_of)) return std::nullopt;
  ReadCells cells;
  for (const BoundStatement& statement : program.statements) {
    std::vector<TensorId> reads = read_by(statement);
    if (std::ranges::none_of(reads, is_of)) continue;
    const auto* c = std::get_if<Contraction>(&statement);
    bool plain = std::ranges::all_of(reads, [&](TensorId r) { return !is_of(r) || r == id; });
    if (c == nullptr || !plain || c->fill == id) return std::nullopt;
    if (!note_reads(program, *c, id, cells)) return std::nullopt;
  }
  return cells;
}

// Whether each of the cells is received.
bool sets(const Exchange& what, const std::vector<Box>& cells) {
  for (const Box& box : cells) {
    std::vector<Box> missing{box};
    for (const Exchange::Part& part : what.receives) {
      std::vector<Box> left;
      for (const Box& one : missing) {
        for (Box& rest : difference(one, part.box)) left.push_back(std::move(rest));
      }
      missing = std::move(left);
    }
    if (std::ranges::any_of(missing, [](const Box& rest) { return !rest.empty(); })) return false;
  }
  return true;
}

// The parts with those for the rank itself cut down to the cells.
void keep(Exchange& what, int64_t rank, const std::vector<Box>& cells) {
  std::vector<Exchange::Part> sends, receives;
  auto own = [&](const Exchange::Part& part) { return part.rank == rank; };
  auto sent = std::ranges::find_if(what.sends, own);
  for (const Exchange::Part& part : what.receives) {
    if (!own(part)) {
      receives.push_back(part);
      continue;
    }
    for (const Box& box : cells) {
      Box both = intersection(part.box, box);
      if (both.empty()) continue;
      sends.push_back({rank, moved(relative(both, part.box.lo), sent->box.lo)});
      receives.push_back({rank, std::move(both)});
    }
    sent = std::find_if(sent + 1, what.sends.end(), own);
  }
  std::ranges::copy_if(what.sends, std::back_inserter(sends), std::not_fn(own));
  what.sends = std::move(sends);
  what.receives = std::move(receives);
  what.sparse = true;
}

// The dimensions along which all loads of the tensor are plain: an index that meets no end.
std::vector<bool> plain_dims(const BoundProgram& program, TensorId id) {
  std::vector<bool> plain(program.tensors[id].shape.size(), true);
  for (const BoundStatement& statement : program.statements) {
    const auto* c = std::get_if<Contraction>(&statement);
    if (c == nullptr || !contains(read_by(statement), id)) continue;
    Box result = whole_box(program.tensors[c->outputs[0]].shape);
    for (const Piece& piece : c->pieces) {
      PieceNeeds needs = needs_of(program, piece, result, {});
      for (size_t l = 0; l < piece.loads.size(); ++l) {
        if (piece.loads[l].tensor != id) continue;
        for (size_t d = 0; d < plain.size(); ++d) {
          bool inside = !needs.empty && needs.loads[l].reach[d] == Reach::inside;
          plain[d] = plain[d] && inside && piece.loads[l].index[d].value < 0;
        }
      }
    }
  }
  return plain;
}

// Whether nothing but this exchange and loads of statements knows the tensor.
bool is_its_own(const RankProgram& rank, TensorId id) {
  for (TensorId other : rank.program.tensors.ids()) {
    if (other != id && storage_of(rank.program, other) == id) return false;
  }
  auto is_part = [&](const PartOfTensor& p) { return p.whole == id || p.part == id; };
  auto sets = [&](const PlacedExchange& e) { return e.what.result == id; };
  return std::ranges::none_of(rank.parts, is_part) &&
         std::ranges::count_if(rank.exchanges, sets) == 1;
}

void read_within(BoundProgram& program, TensorId id, const Box& box,
                 const std::vector<bool>& plain) {
  for (BoundStatement& statement : program.statements) {
    auto* c = std::get_if<Contraction>(&statement);
    for (size_t p = 0; c != nullptr && p < c->pieces.size(); ++p) {
      for (Access& load : c->pieces[p].loads) {
        for (size_t d = 0; load.tensor == id && d < plain.size(); ++d) {
          if (!plain[d]) continue;
          load.index[d].affine = load.index[d].affine - constant_affine(box.lo[d]);
          load.index[d].boundary = Boundary::in_range;
        }
      }
    }
  }
}

// The result becomes as large as what it receives, which is all that is read of it.
void shrink(RankProgram& rank, Exchange& what) {
  if (what.receives.empty() || !is_its_own(rank, what.result)) return;
  Box all = what.receives[0].box, whole = whole_box(rank.program.tensors[what.result].shape);
  for (const Exchange::Part& part : what.receives) all = hull(all, part.box);
  std::vector<bool> plain = plain_dims(rank.program, what.result);
  for (size_t d = 0; d < plain.size(); ++d) {
    if (plain[d]) continue;
    all.lo[d] = whole.lo[d];
    all.hi[d] = whole.hi[d];
  }
  if (all.empty() || all == whole) return;
  rank.program.tensors.edit(what.result).shape = all.shape();
  for (Exchange::Part& part : what.receives) part.box = relative(part.box, all.lo);
  read_within(rank.program, what.result, all, plain);
}

}  // namespace

void drop_unread_wholes(RankProgram& program) {
  IdVector<TensorId, bool> read(program.program.tensors.size());
  auto note = [&](TensorId id) { read[storage_of(program.program, id)] = true; };
  for (const BoundStatement& statement : program.program.statements) {
    for (TensorId id : read_by(statement)) note(id);
  }
  for (const PlacedExchange& exchange : program.exchanges) note(exchange.what.source);
  for (TensorId id : program.program.outputs) note(id);
  std::erase_if(program.parts, [&](const PartOfTensor& part) { return !read[part.whole]; });
}

// Cells that nothing is received for are zero, if somebody reads them.
void drop_unread_cells(RankProgram& program, int64_t rank, const std::set<size_t>& exchanges) {
  for (size_t e : exchanges) {
    Exchange& what = program.exchanges[e].what;
    std::optional<ReadCells> cells = read_cells(program, what.result);
    if (!cells || !sets(what, cells->loads)) continue;
    keep(what, rank, cells->statements);
    shrink(program, what);
  }
}

}  // namespace tile
