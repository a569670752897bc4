// Networks as Tile texts, whose first lines, comments, say with which sizes and types they are run
// and what is differentiated:
//
//   // sizes N=3 C=5
//   // type X bf16          of an input; f32 where nothing is said
//   // type Label i64 C     whole numbers below a size
//   // gradient Y: X G
//   // second DX: X
#pragma once

#include <string>
#include <vector>

#include "tests/random/whole_program.h"

namespace tile::test {

struct Network {
  std::string name;
  std::string text;
  std::vector<Sizes> sizes;
  std::map<std::string, DType> types;
  std::map<std::string, std::string> below;
  std::vector<WholeGradient> gradients;
};

// The networks of a folder, by name. Throws Failure for a file that cannot be read.
std::vector<Network> networks_in(const std::string& folder);

// A network at one of its sizes, with none, one or both of its gradients; real values from the
// seed.
WholeCase case_of(const Network& network, size_t size, size_t gradients, uint64_t seed);

}  // namespace tile::test
