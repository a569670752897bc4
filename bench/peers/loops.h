#pragma once

#include "bench/peers/peer.h"

namespace tile::bench {

// Stencils as a programmer writes them by hand: C++ loops that the compiler vectorises for this
// CPU, rows shared out to the threads.
std::unique_ptr<Peer> make_loops(int threads);

}  // namespace tile::bench
