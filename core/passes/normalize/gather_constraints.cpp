#include "core/passes/normalize/normalize.h"

namespace tile {
namespace {

void gather(Piece& piece, const Access& access, const Shape& shape) {
  for (size_t d = 0; d < access.index.size(); ++d) {
    const Index& index = access.index[d];
    if (index.value >= 0 || index.boundary != Boundary::in_range) continue;
    piece.constraints.push_back({index.affine, 0, shape[d], true});
  }
}

}  // namespace

void gather_constraints(BoundProgram& program, const Target&) {
  for (BoundStatement& statement : program.statements) {
    Contraction* c = std::get_if<Contraction>(&statement);
    if (c == nullptr || c->normalized) continue;
    for (Piece& piece : c->pieces) {
      for (const Access& a : piece.stores) {
        gather(piece, a, program.tensors[a.tensor].shape);
      }
      for (const Access& a : piece.loads) {
        gather(piece, a, program.tensors[a.tensor].shape);
      }
    }
  }
}

}  // namespace tile
