// OpenBLAS: matrix products. Compiled only where it is found.
#pragma once

#include <memory>

#include "bench/peers/peer.h"

namespace tile::bench {

std::unique_ptr<Peer> make_openblas(int threads);
void settle_openblas(char** argv);

}  // namespace tile::bench
