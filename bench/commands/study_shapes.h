// Programs and random shapes for tile-bench study: every class of kernels, none of the sizes that
// the workloads have.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/ir/bound.h"

namespace tile::bench {

struct StudyCase {
  std::string name;  // class and shapes
  const char* text;  // Tile
  std::vector<Shape> shapes;
};

// The same cases for the same seed and scale; the classes come in turns.
class StudyCases {
 public:
  // Sizes are drawn for a CPU of two cores, and are `scale` times as large.
  StudyCases(uint32_t seed, double scale) : random_(seed), scale_(scale) {}
  StudyCase next(size_t number);

 private:
  // Logarithmically uniform.
  int64_t size(double low, double high);
  std::mt19937 random_;
  double scale_;
};

}  // namespace tile::bench
