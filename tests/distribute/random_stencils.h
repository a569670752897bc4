// Random chains of stencils on random meshes: halos at every step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/bound.h"
#include "core/ir/program.h"
#include "core/ir/scalar.h"

namespace tile::test {

struct RandomStencils {
  std::shared_ptr<const Program> source;
  BoundProgram program;
  std::string mesh, layouts;
  std::vector<HostTensor> inputs;

  std::string text() const;  // for messages
};

// Deterministic from the seed: one to four steps in one to three dimensions over windows that may
// be wider than shards, strided, dilated and displaced, with boundary rules, elementwise statements
// and others that need no halo among them; sometimes the gradient of that. Every order of addition
// gives the same bits.
RandomStencils random_stencils(uint64_t seed);

}  // namespace tile::test
