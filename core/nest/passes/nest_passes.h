// The passes over loop nests in order, and the runner that verifies, shows and can skip each.
#pragma once

#include <span>

#include "core/nest/nest.h"
#include "core/support/pass.h"
#include "core/target/target.h"

namespace tile::nest {

struct NestPass : PassInfo {
  Nest (*run)(Nest nest) = nullptr;
  bool gpu = true;  // is for GPUs, too: the others get the nests of a CPU alone
};
std::span<const NestPass> nest_passes();

// Makes a nest as it was lowered ready for a code generator. Throws InternalError where what comes
// out breaks a rule of nests.
Nest run_passes(Nest nest, const Target& target, const PassOptions& options = {});

}  // namespace tile::nest
