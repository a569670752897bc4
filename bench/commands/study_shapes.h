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

// The same cases for the same seed; the classes come in turns.
class StudyCases {
 public:
  explicit StudyCases(uint32_t seed) : random_(seed) {}
  StudyCase next(size_t number);

 private:
  // Logarithmically uniform.
  int64_t size(double low, double high);
  std::mt19937 random_;
};

}  // namespace tile::bench
