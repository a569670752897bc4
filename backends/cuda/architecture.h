// GPU architectures by name.
#pragma once

#include <string>
#include <string_view>

#include "core/target/target.h"

namespace tile::cuda {

// The description of an architecture ("sm_80", "sm_90a" …), so that code for it can be
// made without such a GPU. Throws Failure (compile, "target") for other names and below sm_75,
// which NVRTC no longer knows.
Target target_of_architecture(std::string_view name);

// The name for a compute capability: from 9.0 on with the suffix that lets in what only this
// architecture has.
std::string architecture_name(int major, int minor);

}  // namespace tile::cuda
