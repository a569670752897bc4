#include "core/distribute/overlap/interior.h"

#include <algorithm>

#include "core/support/control.h"

namespace tile {
namespace {

// Whether the tensor in which the cells are has more cells before them or behind them than the
// dimension has: what lies beyond an end of that may be a cell there.
bool is_wider(const BoundProgram& program, TensorId tensor, const Arrived& arrived, size_t d) {
  int64_t before = arrived.at[d], size = arrived.box.hi[d] - arrived.box.lo[d];
  int64_t behind = program.tensors[arrived.from].shape[d] - before - size;
  return before > arrived.box.lo[d] ||
         behind > program.tensors[tensor].shape[d] - arrived.box.hi[d];
}

// Whether a rule that acts at the ends of the dimension acts at the same ends there. Where cells at
// an end are not among those that have arrived nothing that is needed lies beyond it.
bool same_ends(const BoundProgram& program, TensorId tensor, const Arrived& arrived, size_t d) {
  int64_t extent = program.tensors[tensor].shape[d];
  int64_t there = program.tensors[arrived.from].shape[d];
  bool low = arrived.box.lo[d] > 0 || arrived.at[d] == 0;
  int64_t size = arrived.box.hi[d] - arrived.box.lo[d];
  bool high = arrived.box.hi[d] < extent || arrived.at[d] + size == there;
  return low && high;
}

// The load in the tensor where its cells are.
void read_there(const BoundProgram& program, Piece& piece, Access& load, const Need& need,
                const Arrived& arrived) {
  const Shape& shape = program.tensors[load.tensor].shape;
  for (size_t d = 0; d < load.index.size(); ++d) {
    Index& index = load.index[d];
    if (index.value >= 0) continue;
    // Points that are out of range here are none there either.
    if (index.boundary == Boundary::in_range && is_wider(program, load.tensor, arrived, d)) {
      piece.constraints.push_back({index.affine, 0, shape[d], true});
    }
    if (need.reach[d] == Reach::inside) index.boundary = Boundary::in_range;
    index.affine = index.affine - constant_affine(arrived.box.lo[d] - arrived.at[d]);
  }
  load.tensor = arrived.from;
}

void restrict_stores(Piece& piece, const Box& box, TensorId part) {
  for (Access& store : piece.stores) {
    store.tensor = part;
    for (size_t d = 0; d < store.index.size(); ++d) {
      store.index[d].affine = store.index[d].affine - constant_affine(box.lo[d]);
    }
  }
}

bool share_iterators(const Affine& a, const Affine& b) {
  size_t n = std::min(a.coefficients.size(), b.coefficients.size());
  for (size_t i = 0; i < n; ++i) {
    if (!a.coefficients[i].is_zero() && !b.coefficients[i].is_zero()) return true;
  }
  return false;
}

// The end of which dimension has to go so that nothing needs the hole: one at which the hole is, or
// else the low one of a dimension that it does not fill.
struct End {
  size_t dim = 0;
  bool low = true;
};
End end_of(const Box& hole, const Box& box) {
  std::optional<End> any;
  for (size_t d = 0; d < box.dims(); ++d) {
    bool low = hole.lo[d] == box.lo[d], high = hole.hi[d] == box.hi[d];
    if (low && high) continue;
    if (low || high) return {d, low};
    any = End{d, true};
  }
  return any.value_or(End{});
}

// How a need goes beyond what has arrived along a dimension.
struct Beyond {
  bool low = false, high = false;
  bool rule = false;  // what a boundary rule gives there is something else
  bool any() const { return low || high || rule; }
};
Beyond ways_beyond(const BoundProgram& program, TensorId tensor, const Need& need,
                   const Arrived& arrived, size_t d) {
  // Nothing in the dimension: all is beyond its ends, and has to be there, too.
  if (need.box.lo[d] >= need.box.hi[d]) {
    return {false, false, need.shift[d] != 0 || is_wider(program, tensor, arrived, d)};
  }
  Beyond beyond;
  beyond.low = need.box.lo[d] < arrived.box.lo[d];
  beyond.high = need.box.hi[d] > arrived.box.hi[d];
  bool ruled = need.reach[d] != Reach::inside && !same_ends(program, tensor, arrived, d);
  beyond.rule = need.shift[d] != 0 || ruled;
  for (const Box& hole : arrived.holes) {
    if (!overlap(need.box, hole)) continue;
    End end = end_of(hole, arrived.box);
    if (end.dim == d) (end.low ? beyond.low : beyond.high) = true;
  }
  return beyond;
}

}  // namespace

bool has_arrived(const BoundProgram& program, TensorId tensor, const Need& need,
                 const Arrived& arrived) {
  for (size_t d = 0; d < need.box.dims(); ++d) {
    if (ways_beyond(program, tensor, need, arrived, d).any()) return false;
  }
  return true;
}

Interior::Interior(const BoundProgram& program, const Contraction& c, const ArrivedCells& arrived)
    : program_(program), c_(c), arrived_(arrived) {
  for (const Piece& piece : c.pieces) images_.emplace_back(program, piece);
}

// `visit` is told each excess until it returns true.
template <class Visit>
void Interior::visit_excesses(const Box& box, const Visit& visit) const {
  for (size_t p = 0; p < images_.size(); ++p) {
    checkpoint();
    PieceNeeds needs = images_[p].of(box, {});
    for (size_t l = 0; l < needs.loads.size(); ++l) {
      TensorId tensor = c_.pieces[p].loads[l].tensor;
      auto known = arrived_.find(tensor);
      if (known == arrived_.end() || needs.empty) continue;
      const Arrived& arrived = known->second;
      const Need& need = needs.loads[l];
      for (size_t d = 0; d < need.box.dims(); ++d) {
        Beyond beyond = ways_beyond(program_, tensor, need, arrived, d);
        if (beyond.low && visit(Excess{tensor, d, Excess::Side::low})) return;
        if (beyond.high && visit(Excess{tensor, d, Excess::Side::high})) return;
        bool rule = beyond.rule && !beyond.low && !beyond.high;
        if (rule && visit(Excess{tensor, d, Excess::Side::rule})) return;
      }
    }
  }
}

std::optional<Interior::Excess> Interior::first_excess(const Box& box) const {
  std::optional<Excess> first;
  visit_excesses(box, [&](const Excess& excess) {
    first = excess;
    return true;
  });
  return first;
}

bool Interior::exceeds(const Box& box, const Excess& excess) const {
  bool found = false;
  visit_excesses(box, [&](const Excess& other) {
    return found = other.tensor == excess.tensor && other.dim == excess.dim &&
                   other.side == excess.side;
  });
  return found;
}

// Dimensions of the result on which the index depends.
std::vector<size_t> Interior::dims_of(const Excess& excess) const {
  std::vector<size_t> dims;
  for (size_t d = 0; d < program_.tensors[c_.outputs[0]].shape.size(); ++d) {
    bool depends = false;
    for (const Piece& piece : c_.pieces) {
      for (const Access& load : piece.loads) {
        if (load.tensor != excess.tensor || load.index[excess.dim].value >= 0) continue;
        for (const Access& store : piece.stores) {
          depends =
              depends || share_iterators(store.index[d].affine, load.index[excess.dim].affine);
        }
      }
    }
    if (depends) dims.push_back(d);
  }
  return dims;
}

std::optional<Box> Interior::cut(const Box& box, const Excess& excess) const {
  std::optional<Box> best;
  for (size_t d : dims_of(excess)) {
    for (bool low : {true, false}) {
      Box left = box;
      // The fewest cells to leave out at this end, by bisection: less is needed by less.
      int64_t none = 0, all = box.hi[d] - box.lo[d];
      while (none + 1 < all) {
        int64_t middle = none + (all - none) / 2;
        left.lo[d] = box.lo[d] + (low ? middle : 0);
        left.hi[d] = box.hi[d] - (low ? 0 : middle);
        (exceeds(left, excess) ? none : all) = middle;
      }
      left.lo[d] = box.lo[d] + (low ? all : 0);
      left.hi[d] = box.hi[d] - (low ? 0 : all);
      if (!left.empty() && (!best || left.count() > best->count())) best = left;
    }
  }
  return best;
}

std::optional<Box> Interior::box() const {
  std::optional<Box> box = whole_box(program_.tensors[c_.outputs[0]].shape);
  if (box->empty()) return std::nullopt;
  while (box) {
    std::optional<Excess> excess = first_excess(*box);
    if (!excess) break;
    box = cut(*box, *excess);
  }
  return box;
}

Contraction part_of(const BoundProgram& program, const Contraction& c, const Box& box,
                    TensorId part, const std::vector<ArrivedCells>& arrived) {
  Contraction result = c;
  result.outputs.assign(c.outputs.size(), part);
  result.pieces.clear();
  for (Piece piece : c.pieces) {
    PieceNeeds needs = needs_of(program, piece, box, {});
    if (needs.empty) continue;
    for (size_t l = 0; l < piece.loads.size(); ++l) {
      Access& load = piece.loads[l];
      const Need& need = needs.loads[l];
      for (const ArrivedCells& cells : arrived) {
        auto known = cells.find(load.tensor);
        if (known == cells.end() || !has_arrived(program, load.tensor, need, known->second)) {
          continue;
        }
        read_there(program, piece, load, need, known->second);
        break;
      }
    }
    restrict_stores(piece, box, part);
    result.pieces.push_back(std::move(piece));
  }
  return result;
}

}  // namespace tile
