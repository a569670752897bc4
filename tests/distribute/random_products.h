// Random contractions of factors that ranks have in parts: gathers before them, sums over ranks
// behind them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/bound.h"
#include "core/ir/program.h"
#include "core/ir/scalar.h"

namespace tile::test {

struct RandomProducts {
  std::shared_ptr<const Program> source;
  BoundProgram program;
  std::string mesh, layouts;
  std::vector<HostTensor> inputs;

  std::string text() const;  // for messages
};

// Deterministic from the seed: one to three contractions of common factors (products of matrices,
// batches and filters; sums, maxima, minima), elementwise statements behind them, on two to eight
// ranks, evenly and unevenly. `exact`: every order of addition gives the same bits; else values are
// any reals.
RandomProducts random_products(uint64_t seed, bool exact);

}  // namespace tile::test
