// What a launch is worth: its work beside the time that it took.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine/executable.h"

namespace tile {

struct LaunchProfile {
  std::string name;
  double ns = 0;
  double bytes = 0;       // tensors read and written, each once
  double operations = 0;  // of the valid points; 0 where they cannot be counted
  double share = 0;       // of the better of the target's two ceilings, memory and arithmetic
};

// One for each launch, from the times of RunOptions::profile.
std::vector<LaunchProfile> profile(const Executable& executable, const std::vector<double>& ns);
// A line for each launch, and their sum. A share of more than all is said to come from the caches:
// the ceiling is the memory's.
std::string to_text(const std::vector<LaunchProfile>& launches);

}  // namespace tile
