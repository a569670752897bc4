// Runs nests on the CPU backend and on the interpreter and compares every element.
#pragma once

#include <string>
#include <vector>

#include "backends/backend.h"
#include "core/ir/scalar.h"
#include "core/nest/nest.h"

namespace tile::cpu {

nest::Nest parse(const std::string& text);

// Tensors for the nest's arguments: small integers, so that sums are exact in any order.
std::vector<HostTensor> small_integers(const nest::Nest& nest, uint64_t seed);

struct Run {
  std::vector<std::string> targets = {"native", "avx2", "sse"};
  std::vector<int64_t> parameters = {};
  int threads = 0;
  double tolerance = 0;  // in units of the reference's last place, of the type; 0: the same value
};
// Compiles for each target (those that the host lacks are left out), launches on copies of the
// tensors, and expects what the interpreter leaves; memory around the arguments must stay as it is,
// and what lies past their ends is neither written nor read.
void expect_as_interpreted(const nest::Nest& nest, const std::vector<HostTensor>& arguments,
                           const Run& run = {});
// The same on text, with small integers.
void expect_as_interpreted(const std::string& text, const Run& run = {});

}  // namespace tile::cpu
