#include <algorithm>

#include "bench/peers/loops.h"
#include "bench/peers/mkl.h"
#include "bench/peers/onednn.h"
#include "bench/peers/onednn_at_run_time.h"
#include "bench/peers/openblas.h"
#include "bench/peers/peer.h"

namespace tile::bench {
namespace {

// The one opened at run time is newer than the one that was there when this program was built.
std::unique_ptr<Peer> newest_onednn(int threads) {
  std::unique_ptr<Peer> peer = make_onednn_at_run_time(threads);
#ifdef TILE_PEER_ONEDNN
  if (!peer) peer = make_onednn(threads);
#endif
  return peer;
}

}  // namespace

std::vector<std::unique_ptr<Peer>> make_peers(int threads) {
  std::vector<std::unique_ptr<Peer>> peers;
#ifdef TILE_PEER_OPENBLAS
  peers.push_back(make_openblas(threads));
#endif
  peers.push_back(newest_onednn(threads));
  peers.push_back(make_mkl(threads));
  peers.push_back(make_loops(threads));
  std::erase(peers, nullptr);
  return peers;
}

std::vector<std::string> missing_peers(const std::vector<std::unique_ptr<Peer>>& peers) {
  struct Known {
    std::string name, hint;
  };
  std::vector<std::string> missing;
  for (const auto& [name, hint] : {Known{"openblas", "libopenblas-dev when building"},
                                   Known{"onednn", "third_party/install.sh --peers"},
                                   Known{"mkl", "third_party/install.sh --peers"}}) {
    bool present = std::any_of(peers.begin(), peers.end(),
                               [&, &name = name](const auto& p) { return p->name() == name; });
    if (!present) missing.push_back(name + ": not found (" + hint + ")");
  }
  return missing;
}

void settle_environment([[maybe_unused]] char** argv) {
#ifdef TILE_PEER_OPENBLAS
  settle_openblas(argv);
#endif
}

}  // namespace tile::bench
