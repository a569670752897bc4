// Kernels with row loops, for the files of this folder.
#pragma once

#include <string>

#include "core/schedule/kernel.h"

namespace tile {

// Empty where the kernel's rows keep the rules of KernelStage::rows; else the first broken one.
std::string broken_rows(const Kernel& kernel);

}  // namespace tile
