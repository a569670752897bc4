#include <algorithm>

#include "core/lattice/rows.h"

namespace tile::lattice {

std::optional<Substitution> solve_integrality(const System& system) {
  Sublattice lattice = whole_lattice(system.iterators);
  bool asks = std::ranges::any_of(system.conditions, [](const Condition& condition) {
    return condition.integral && !condition.form.is_integral();
  });
  if (!asks) return to_substitution(lattice);
  for (const Congruence& c : normalise(system).congruences) {
    if (!restrict_lattice(lattice, c)) return std::nullopt;
  }
  return to_substitution(lattice);
}

}  // namespace tile::lattice
