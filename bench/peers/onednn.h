// oneDNN: matrix products, convolutions, pooling, softmax, sums, transposition. Compiled only where
// it is found.
#pragma once

#include <memory>

#include "bench/peers/peer.h"

namespace tile::bench {

std::unique_ptr<Peer> make_onednn(int threads);

}  // namespace tile::bench
