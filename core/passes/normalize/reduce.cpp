#include <utility>

#include "core/passes/normalize/normalize.h"
#include "core/passes/normalize/plain_piece.h"
#include "core/passes/normalize/substitution.h"
#include "core/support/checked.h"

namespace tile {
namespace {

std::vector<Affine> output_forms(const Piece& piece) {
  std::vector<Affine> forms;
  for (const Index& index : piece.stores[0].index) forms.push_back(index.affine);
  return forms;
}

// False: the piece has no integer point.
bool reduce_piece(Piece& piece) {
  if (std::optional<PlainDomain> plain = plain_domain(piece)) {
    piece.parallel_dims = plain->parallel_dims;
    return true;
  }
  std::optional<lattice::Substitution> integral = lattice::solve_integrality(system_of(piece));
  if (!integral) return false;
  piece = substituted(std::move(piece), *integral);
  lattice::Bounds bounds = lattice::bounds(system_of(piece));
  if (bounds.empty) return false;
  internal_check(!bounds.unbounded.has_value(), "reduce: an unbounded index passed bind");
  std::vector<Affine> outputs = output_forms(piece);
  lattice::Ownership owned = lattice::own_outputs(piece.iterators.size(), outputs, bounds.box);
  piece = substituted(std::move(piece), owned.substitution);
  piece.parallel_dims = owned.parallel_dims;
  return true;
}

}  // namespace

void reduce(BoundProgram& program, const Target&) {
  for (BoundStatement& statement : program.statements) {
    Contraction* c = std::get_if<Contraction>(&statement);
    if (c == nullptr || c->normalized) continue;
    try {
      std::erase_if(c->pieces, [](Piece& piece) { return !reduce_piece(piece); });
    } catch (const Overflow&) {
      fail(Stage::compile, "overflow", c->span,
           "the indices of " + program.tensors[c->outputs[0]].name +
               " need numbers of more than 64 bits as whole numbers");
    }
  }
}

}  // namespace tile
