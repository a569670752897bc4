// oneDNN 3 and later, opened at run time where it is found: matrix products, convolutions of every
// kind and their gradients, pooling, softmax, layer norm, reductions, transposition.
#pragma once

#include <memory>

#include "bench/peers/peer.h"

namespace tile::bench {

// Null if it is not found.
std::unique_ptr<Peer> make_onednn_at_run_time(int threads);

}  // namespace tile::bench
