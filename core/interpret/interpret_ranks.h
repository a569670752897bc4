// The reference semantics of a program that is divided among ranks.
#pragma once

#include <vector>

#include "core/interpret/interpret.h"
#include "core/ir/ranks/rank_program.h"

namespace tile {

// Runs the programs of all ranks in lockstep: each rank's statements up to the next exchange, then
// the exchange of all. `inputs` are each rank's own parts, in the order of its program's inputs.
// Returns what each rank has. `options` hold for each rank by itself. Throws Failure as interpret.
std::vector<Interpretation> interpret_ranks(const std::vector<RankProgram>& ranks,
                                            const std::vector<std::vector<HostTensor>>& inputs,
                                            const InterpretOptions& options = {});

}  // namespace tile
