// Random meshes and layouts for a program.
#pragma once

#include <cstdint>
#include <string>

#include "core/ir/bound.h"

namespace tile::test {

struct RandomLayouts {
  std::string mesh, layouts;
  bool owners_only = true;  // no terms are divided, and nothing is a partial sum
};

// Deterministic. `divide`: terms may be divided and tensors partial sums.
RandomLayouts random_layouts(const BoundProgram& program, uint64_t seed, bool divide);

}  // namespace tile::test
