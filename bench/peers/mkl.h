// Intel's MKL: matrix products. Opened at run time where it is found.
#pragma once

#include <memory>

#include "bench/peers/peer.h"

namespace tile::bench {

// Null if it is not found.
std::unique_ptr<Peer> make_mkl(int threads);

}  // namespace tile::bench
