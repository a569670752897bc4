// Small networks with one size left open, for tile-bench sizes and the tests of classes of sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/bound.h"

namespace tile::bench {

struct SizeNetwork {
  const char* name;
  const char* open;  // what the open size is: "batch" or "sequence"
  std::string text;  // Tile
  // Of the inputs; kOpen stands for the open size.
  std::vector<Shape> shapes;

  std::vector<Shape> at(int64_t size) const;
};
constexpr int64_t kOpen = -1;

// Twenty: perceptrons, blocks of attention and of convolutions, with norms and softmax.
const std::vector<SizeNetwork>& size_networks();

}  // namespace tile::bench
