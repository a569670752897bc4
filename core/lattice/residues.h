// How the parallel dimensions split into residue classes so that the reduction gets bounds of its
// own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/lattice/rows.h"

namespace tile::lattice {

// For each residue r (0 <= r_i < modulus_i) the substitution
//   parallel_dim_i = modulus_i * parallel_dim_i' + r_i,   k = transform * (k' - sum of drift_i *
//   parallel_dim_i').
struct Residues {
  Vector moduli;               // by parallel dimension
  Matrix transform;            // unimodular, over the reduction iterators
  std::vector<Vector> drifts;  // by parallel dimension
  int64_t classes = 1;
};

// Chooses rows of full rank on the reduction iterators (those from `parallel_dims` on) that leave
// the fewest points per output cell, or those on record as the choice of `of`
// (core/support/choices.h). nullopt: no point was found on the way.
std::optional<Residues> choose_residues(const Rows& rows, size_t parallel_dims, int64_t class_limit,
                                        const std::string& of);

}  // namespace tile::lattice
