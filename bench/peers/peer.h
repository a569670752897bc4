// Peers: other libraries that compute some of the workloads, timed in turns with ours.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/measure/tensor.h"
#include "bench/measure/timing.h"
#include "bench/measure/workload.h"

namespace tile::bench {

class Peer {
 public:
  virtual ~Peer() = default;
  virtual std::string name() const = 0;         // "openblas"
  virtual std::string description() const = 0;  // version, kernels, threads
  // Calls that compute the case into the first of `outputs`, or all, with whatever a library lets
  // its users prepare (weights are constant) done before; empty if the library does not have the
  // operation. The tensors outlive the call.
  virtual Calls prepare(const Case& c, std::span<const Tensor> inputs,
                        std::span<Tensor> outputs) = 0;
  // How many of the outputs the last prepared case has.
  virtual size_t computed() const { return 1; }
  // What its calls allocate at most, results included; nullopt: not known.
  virtual std::optional<double> allocated_bytes() { return std::nullopt; }
};

// The libraries that this program was built with or that it finds now.
std::vector<std::unique_ptr<Peer>> make_peers(int threads);
// Known ones that are not among them, and where they would come from.
std::vector<std::string> missing_peers(const std::vector<std::unique_ptr<Peer>>& peers);
// Called first in main with --peers: a library that reads its environment before main and picks
// kernels below what this CPU has is given a better setting, and the program starts again.
void settle_environment(char** argv);

}  // namespace tile::bench
