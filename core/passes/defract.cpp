#include "core/passes/substitution.h"
#include "core/passes/tensor_passes.h"

namespace tile {
namespace {

void append_classes(const Piece& piece, std::vector<Piece>& out) {
  for (const lattice::Piece& part : lattice::split(system_of(piece), piece.owners)) {
    Piece result = substituted(piece, part.substitution);
    result.owners = part.owners;
    result.constraints = constraints_of(part.system);
    for (const lattice::Interval& range : part.box) result.box.push_back(range.hi + 1);
    out.push_back(std::move(result));
  }
}

}  // namespace

void defract(BoundProgram& program, const Target&) {
  for (BoundStatement& statement : program.statements) {
    Contraction* c = std::get_if<Contraction>(&statement);
    if (c == nullptr || c->normalized) continue;
    std::vector<Piece> pieces;
    for (const Piece& piece : c->pieces) append_classes(piece, pieces);
    c->pieces = std::move(pieces);
    c->normalized = true;
  }
}

}  // namespace tile
