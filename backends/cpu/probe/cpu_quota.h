// How much of the processors a container may use.
#pragma once

#include <string>

namespace tile::cpu {

// The processors that the process's control groups (version 2) let it use, rounded up: the least
// quota of its own group and of those around it (`cpu.max`). 0: no quota. `root`: where /proc and
// /sys are looked for. What is missing or makes no sense is no quota.
int processor_quota(const std::string& root = "");

}  // namespace tile::cpu
