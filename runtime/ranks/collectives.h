// Exchanges that are one call of what links devices.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "backends/rank_device.h"
#include "core/ir/ranks/rank_program.h"

namespace tile {

struct Collective {
  LinkCollective::Kind kind;
  size_t elements = 0;  // of what a rank gives to an all-gather, and gets of a reduce-scatter
};

// Of each exchange of a mesh's ranks, whose programs these are: all ranks give and get parts of one
// size, in the order of their numbers and side by side. Sums are so only where their order does not
// matter: of two terms, or of integers.
std::vector<std::optional<Collective>> collectives_of(const std::vector<RankProgram>& ranks);

}  // namespace tile
