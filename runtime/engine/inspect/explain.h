// What became of a program's kernels and what the cost model says of them, as text or JSON.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine/executable.h"

namespace tile {

struct ExplainOptions {
  bool json = false;
  // Nanoseconds of each launch, in order (RunOptions::profile); empty: nothing was measured.
  std::vector<double> measured_ns;
};
// Throws Failure.
std::string explain(const Executable& executable, const ExplainOptions& options);

}  // namespace tile
