// Reads under a boundary rule as reads in range: the cells that an access can name, each with the
// points that read it there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/autodiff/derivation/derivation.h"
#include "core/simplify/simplify.h"

namespace tile {

// Above every distance of an index from its dimension; the domain's own bounds are tighter.
constexpr int64_t kFar = int64_t{1} << 40;

// Where `constraints` hold, the access reads the cell `index`, which is in range. `indices` are new
// ones: the periods of wrap and mirror, and the digits of indices with quotients and remainders.
struct BoundaryCase {
  std::vector<Expr> index;
  std::vector<SymbolicConstraint> constraints;
  std::vector<std::string> indices;
};

// The ranges of indices with a bound of their own, and what the program says of its sizes.
Ranges known_ranges(const Program& program, const SymbolicContraction& contraction);

// Every point of the contraction that reads an element is in exactly one case. A clamp has up to
// three for each dimension (those that the ranges of the indices exclude are left out), a wrap one,
// a mirror two; a constant outside is no element. nullopt: an index depends on data, is not affine
// in pieces, or has very many cases.
std::optional<std::vector<BoundaryCase>> boundary_cases(const Derivation& derivation,
                                                        const SymbolicContraction& contraction,
                                                        const SymbolicAccess& access);

}  // namespace tile
