// Ranks that are threads of one process.
#pragma once

#include <memory>
#include <vector>

#include "runtime/transport/transport.h"

namespace tile {

// One end for each rank; each is to be used by a thread of its own. A rank that waits for longer
// than `timeout_seconds` for another gives up.
std::vector<std::unique_ptr<Transport>> local_transports(size_t ranks, double timeout_seconds);

}  // namespace tile
