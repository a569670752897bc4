#include "core/lattice/rows.h"

namespace tile::lattice {

std::optional<Substitution> solve_integrality(const System& system) {
  Sublattice lattice = whole_lattice(system.iterators);
  for (const Congruence& c : normalise(system).congruences) {
    if (!restrict_lattice(lattice, c)) return std::nullopt;
  }
  return to_substitution(lattice);
}

}  // namespace tile::lattice
