// What a launch is worth: its work beside the time that it took.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/engine/executable.h"

namespace tile {

// What a launch does at least, and how long the machine takes for that at best.
struct LaunchWork {
  double bytes = 0;       // tensors read and written, each once
  double operations = 0;  // of the valid points and of loops inside kernels
  bool counted = true;    // else the operations are 0
  double memory_ns = 0, arithmetic_ns = 0;
  double least_ns() const { return std::max(memory_ns, arithmetic_ns); }
};
// The launch has its stages. On a GPU the arithmetic is the tensor cores' where they multiply what
// the first stage reads.
LaunchWork work_of(const Executable& executable, const Launch& launch);

struct LaunchProfile {
  std::string name;
  double ns = 0;
  LaunchWork work;
  double share = 0;  // of the better of the target's two ceilings, memory and arithmetic
};

// One for each launch, from the times of RunOptions::profile.
std::vector<LaunchProfile> profile(const Executable& executable, const std::vector<double>& ns);
// A line for each launch, and their sum. A share of more than all is said to come from the caches:
// the ceiling is the memory's.
std::string to_text(const std::vector<LaunchProfile>& launches);

}  // namespace tile
