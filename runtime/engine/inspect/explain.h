// What became of a program's kernels and what the cost model says of them, as text or JSON.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine/executable.h"

namespace tile {

struct ExplainOptions {
  bool json = false;  // everything
  // As text: behind the table with a line for each launch what is known of all, or, in its place,
  // of these: numbers of the table, or tensors that they make.
  bool all = true;
  std::vector<std::string> kernels;
  // Nanoseconds of each launch, in order (RunOptions::profile); empty: nothing was measured.
  std::vector<double> measured_ns;
};
// Throws Failure; (stage run, "argument") where a kernel that is asked for is not there.
std::string explain(const Executable& executable, const ExplainOptions& options);

}  // namespace tile
