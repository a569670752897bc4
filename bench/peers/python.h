// Peers that live in Python modules (PyTorch, JAX, Halide, …): one process each, which shares the
// tensors' memory with this one and times its own calls.
#pragma once

#include <memory>
#include <vector>

#include "bench/peers/peer.h"

namespace tile::bench {

// Of the modules that the cases name those that can be imported, on the device "cpu" or "cuda", by
// a Python of the environment variable TILE_BENCH_PYTHON (several are separated by colons; where it
// is not set, python3 and that of install.sh --peers); the others stand in the list as peers
// without operations whose description says why. They round the factors of f32 products to tf32
// for workloads of that precision (`precision`: of those that name none). `only`: of these modules,
// empty for all.
std::vector<std::unique_ptr<Peer>> make_python_peers(const std::vector<Case>& cases, int threads,
                                                     const std::string& device, Precision precision,
                                                     const std::vector<std::string>& only = {});

}  // namespace tile::bench
