#include "tests/distribute/received_cells.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "core/interpret/points.h"
#include "core/ir/analysis/uses.h"

namespace tile::test {
namespace {

// Row-major positions of a box's cells.
void mark(std::vector<bool>& cells, const Shape& shape, const Box& box) {
  if (box.empty()) return;
  std::vector<int64_t> at = box.lo;
  while (true) {
    int64_t position = 0;
    for (size_t d = 0; d < at.size(); ++d) position = position * shape[d] + at[d];
    cells[static_cast<size_t>(position)] = true;
    size_t d = at.size();
    while (d > 0 && ++at[d - 1] == box.hi[d - 1]) {
      at[d - 1] = box.lo[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

struct Extent {
  int64_t lo = 0, hi = -1;  // inclusive
};

// The cells of a dimension of extent n that indices from lo to hi reach under a rule.
std::pair<int64_t, int64_t> reached(Extent e, int64_t n, Boundary rule) {
  if (e.lo >= 0 && e.hi < n) return {e.lo, e.hi + 1};
  if (n == 0) return {0, 0};
  switch (rule) {
    case Boundary::clamp:
      return {std::clamp<int64_t>(e.lo, 0, n - 1), std::clamp<int64_t>(e.hi, 0, n - 1) + 1};
    case Boundary::mirror:
      if (e.lo >= -n && e.hi < n) return {0, std::max(e.hi + 1, -e.lo)};
      if (e.lo >= 0 && e.hi < 2 * n) return {std::min(e.lo, 2 * n - 1 - e.hi), n};
      return {0, n};
    case Boundary::wrap:
      return {0, n};
    default: {
      int64_t lo = std::clamp<int64_t>(e.lo, 0, n);
      return {lo, std::max(lo, std::clamp<int64_t>(e.hi, -1, n - 1) + 1)};
    }
  }
}

// The cells of `tensor` that a piece's loads reach.
void mark_loads(const BoundProgram& program, const Contraction& c, const Piece& piece,
                TensorId tensor, std::vector<bool>& cells) {
  const Shape& shape = program.tensors[tensor].shape;
  bool any = std::any_of(piece.loads.begin(), piece.loads.end(),
                         [&](const Access& a) { return a.tensor == tensor; });
  if (!any) return;
  std::vector<std::vector<Extent>> extents(piece.loads.size(), std::vector<Extent>(shape.size()));
  bool first = true;
  WorkMeter meter(int64_t{1} << 40);
  for_each_point(program, piece, c.span, meter, [&](std::span<const int64_t> x) {
    for (size_t l = 0; l < piece.loads.size(); ++l) {
      if (piece.loads[l].tensor != tensor) continue;
      for (size_t d = 0; d < shape.size(); ++d) {
        if (piece.loads[l].index[d].value >= 0) continue;
        int64_t i = piece.loads[l].index[d].affine.evaluate(x).floor();
        Extent& e = extents[l][d];
        e = first ? Extent{i, i} : Extent{std::min(e.lo, i), std::max(e.hi, i)};
      }
    }
    first = false;
  });
  if (first) return;
  for (size_t l = 0; l < piece.loads.size(); ++l) {
    if (piece.loads[l].tensor != tensor) continue;
    Box box = whole_box(shape);
    for (size_t d = 0; d < shape.size(); ++d) {
      const Index& index = piece.loads[l].index[d];
      if (index.value >= 0) continue;
      std::tie(box.lo[d], box.hi[d]) = reached(extents[l][d], shape[d], index.boundary);
    }
    mark(cells, shape, box);
  }
}

// Everything that some statement reads of a window; the whole where it is read as a whole.
std::vector<bool> cells_read(const RankProgram& rank, TensorId tensor) {
  const BoundProgram& program = rank.program;
  const Shape& shape = program.tensors[tensor].shape;
  std::vector<bool> cells(static_cast<size_t>(element_count(shape)), false);
  bool whole = false;
  for (const BoundTensor& t : program.tensors) whole = whole || t.view_of == tensor;
  for (const PlacedExchange& e : rank.exchanges) whole = whole || e.what.source == tensor;
  for (const BoundStatement& s : program.statements) {
    const auto* c = std::get_if<Contraction>(&s);
    if (c == nullptr || c->fill == tensor) {
      whole = whole || contains(read_by(s), tensor);
      continue;
    }
    for (const Piece& piece : c->pieces) mark_loads(program, *c, piece, tensor, cells);
  }
  if (whole) cells.assign(cells.size(), true);
  return cells;
}

bool is_window(const RankProgram& rank, const Exchange& e) {
  return rank.program.tensors[e.result].name.find(".part") != std::string::npos;
}

std::vector<bool> cells_received(const RankProgram& rank, const Exchange& e) {
  const Shape& shape = rank.program.tensors[e.result].shape;
  std::vector<bool> cells(static_cast<size_t>(element_count(shape)), false);
  for (const Exchange::Part& part : e.receives) mark(cells, shape, part.box);
  return cells;
}

// The number of the input that a tensor of the ranks' programs is.
std::optional<size_t> input_of(const BoundProgram& program, TensorId id) {
  auto found = std::find(program.inputs.begin(), program.inputs.end(), id);
  if (found == program.inputs.end()) return std::nullopt;
  return static_cast<size_t>(found - program.inputs.begin());
}

}  // namespace

std::string first_unlike_brute_force(const PartitionedProgram& p) {
  for (size_t e = 0; e < p.exchanges.size(); ++e) {
    for (size_t r = 0; r < p.ranks.size(); ++r) {
      const Exchange& what = p.ranks[r].exchanges[e].what;
      if (!is_window(p.ranks[r], what)) continue;
      if (cells_read(p.ranks[r], what.result) == cells_received(p.ranks[r], what)) continue;
      return "rank " + std::to_string(r) + " does not get what it needs of " +
             p.exchanges[e].source + "\n" + print(p.ranks[r]);
    }
  }
  return "";
}

// A part that another rank sends counts unless the receiver has it: of inputs that is told by their
// boxes, of other tensors by who sends.
int64_t bytes_by_brute_force(const PartitionedProgram& p) {
  int64_t bytes = 0;
  for (size_t e = 0; e < p.exchanges.size(); ++e) {
    for (size_t r = 0; r < p.ranks.size(); ++r) {
      const Exchange& what = p.ranks[r].exchanges[e].what;
      const BoundProgram& program = p.ranks[r].program;
      auto width = static_cast<int64_t>(byte_size(program.tensors[what.source].type));
      std::optional<size_t> input = input_of(program, what.source);
      std::map<int64_t, size_t> taken;
      for (const Exchange::Part& part : what.receives) {
        auto sender = static_cast<size_t>(part.rank);
        size_t nth = taken[part.rank]++;
        bool own = sender == r;
        if (input && !what.reduction) {
          Box cells;
          for (const Exchange::Part& sent : p.ranks[sender].exchanges[e].what.sends) {
            if (sent.rank == static_cast<int64_t>(r) && nth-- == 0) cells = sent.box;
          }
          own = contains(p.inputs[*input][r], moved(cells, p.inputs[*input][sender].lo));
        }
        if (!own) bytes += part.box.count() * width;
      }
    }
  }
  return bytes;
}

int64_t bytes_told(const PartitionedProgram& p) {
  int64_t bytes = 0;
  for (const ExchangeSummary& e : p.exchanges) bytes += e.cost.bytes;
  return bytes;
}

}  // namespace tile::test
