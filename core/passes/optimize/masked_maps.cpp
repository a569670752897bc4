#include "core/passes/optimize/masked_maps.h"

#include <algorithm>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/passes/normalize/index_forms.h"

namespace tile {
namespace {

// The piece over all cells of the result, one point for each, the old box being conditions;
// nullopt: it does not name cells by its iterators.
std::optional<Piece> over_all_cells(Piece piece, const Shape& shape) {
  std::vector<bool> used(piece.iterators.size(), false);
  for (size_t d = 0; d < shape.size(); ++d) {
    const Index& index = piece.stores[0].index[d];
    if (index.affine == constant_affine(0) && shape[d] == 1) continue;
    IteratorId u = sole_iterator(index, piece);
    if (!u.valid() || used[u.index()]) return std::nullopt;
    used[u.index()] = true;
    if (piece.box[u] == shape[d]) continue;
    piece.constraints.push_back({index.affine, 0, piece.box[u], true});
    piece.box[u] = shape[d];
  }
  for (size_t u = 0; u < used.size(); ++u) {
    if (!used[u] && piece.box[u] != 1) return std::nullopt;
  }
  return piece;
}

// Whether all loads are elements also where the conditions do not hold.
bool loads_anywhere(const BoundProgram& program, Piece whole) {
  whole.constraints.clear();
  IndexForms forms(whole);
  for (const Access& load : whole.loads) {
    const Shape& shape = program.tensors[load.tensor].shape;
    for (size_t d = 0; d < load.index.size(); ++d) {
      const Index& index = load.index[d];
      bool plain = is_plain_index(index);
      if (!plain || !forms.within(index.affine, 0, shape[d])) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Piece> masked_map(const BoundProgram& program, const Contraction& c) {
  bool masked = c.pieces.size() == 1 && !c.pieces[0].constraints.empty();
  return masked ? whole_map(program, c) : std::nullopt;
}

std::optional<Piece> whole_map(const BoundProgram& program, const Contraction& c) {
  if (!is_plain_contraction(c)) return std::nullopt;
  const Piece& piece = c.pieces[0];
  const BoundTensor& result = program.tensors[c.outputs[0]];
  bool points = std::all_of(piece.box.begin(), piece.box.end(), [](int64_t n) { return n > 0; });
  bool tests = std::all_of(piece.constraints.begin(), piece.constraints.end(),
                           [](const Constraint& k) { return k.form.is_integral(); });
  bool maps = points && tests && result.role == TensorRole::temporary && !result.view_of &&
              piece.parallel_dims == piece.iterators.size();
  std::optional<Piece> whole = maps ? over_all_cells(piece, result.shape) : std::nullopt;
  return whole && loads_anywhere(program, *whole) ? whole : std::nullopt;
}

}  // namespace tile
