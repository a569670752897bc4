#include "bench/peers/loops.h"
#include "bench/peers/onednn.h"
#include "bench/peers/openblas.h"
#include "bench/peers/peer.h"

namespace tile::bench {

std::vector<std::unique_ptr<Peer>> make_peers([[maybe_unused]] int threads) {
  std::vector<std::unique_ptr<Peer>> peers;
#ifdef TILE_PEER_OPENBLAS
  peers.push_back(make_openblas(threads));
#endif
#ifdef TILE_PEER_ONEDNN
  peers.push_back(make_onednn(threads));
#endif
  peers.push_back(make_loops(threads));
  return peers;
}

std::vector<std::string> missing_peers() {
  std::vector<std::string> missing;
#ifndef TILE_PEER_OPENBLAS
  missing.emplace_back("openblas: not found when this program was built (libopenblas-dev)");
#endif
#ifndef TILE_PEER_ONEDNN
  missing.emplace_back("onednn: not found when this program was built (libdnnl-dev)");
#endif
  return missing;
}

void settle_environment([[maybe_unused]] char** argv) {
#ifdef TILE_PEER_OPENBLAS
  settle_openblas(argv);
#endif
}

}  // namespace tile::bench
