// The machine that this process runs on.
#pragma once

#include <string>
#include <string_view>

#include "core/target/target.h"

namespace tile::cpu {

// The CPU with everything that it has; features and caches as the system reports them.
Target probe_host();

// The processor's name as it tells it itself: "AMD EPYC 9B45 128-Core Processor"; empty where it
// tells none.
std::string processor_name();

// The host, using only what a level of x86-64 has: "sse" (v2), "avx2" (v3), "avx512" (v4); "native"
// is everything. Throws Failure (compile, "target") for other names and levels above the host's.
Target limited_to(const Target& host, std::string_view level);

}  // namespace tile::cpu
