// How the owners split into residue classes so that the reduction gets bounds of its own.
#pragma once

#include <cstdint>

#include "core/lattice/rows.h"

namespace tile::lattice {

// For each residue r (0 <= r_i < modulus_i) the substitution
//   owner_i = modulus_i * owner_i' + r_i,   k = transform * (k' - sum of drift_i * owner_i').
struct Residues {
  Vector moduli;               // by owner
  Matrix transform;            // unimodular, over the reduction unknowns
  std::vector<Vector> drifts;  // by owner
  int64_t classes = 1;
};

// Chooses rows of full rank on the reduction unknowns (those from `owners` on) that leave the
// fewest points per output cell. `rows` is relaxed and bounded.
Residues choose_residues(const Rows& rows, size_t owners, int64_t class_limit);

}  // namespace tile::lattice
