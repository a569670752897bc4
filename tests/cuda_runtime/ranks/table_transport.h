// A transport of functions (tile/transport.h), as plug-ins give them, between threads.
#pragma once

#include <memory>
#include <vector>

#include "runtime/transport/plugin_transport.h"

namespace tile::test {

// One end for each rank.
std::vector<std::unique_ptr<Transport>> table_transports(size_t ranks, double timeout_seconds);

}  // namespace tile::test
