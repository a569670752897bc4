// Programs and random shapes for tile-bench study: every class of kernels, none of the sizes that
// the workloads have.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/ir/bound.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/executable.h"

namespace tile::bench {

// Of sizes: what they may be scaled by, and multiples of.
constexpr double kLeastScale = 0.01, kMostScale = 100;
constexpr int64_t kMostMultiple = 1024;

struct StudyCase {
  std::string name;  // class and shapes
  const char* text;  // Tile
  std::vector<Shape> shapes;
};

// The same cases for the same seed and scale; the classes come in turns.
class StudyCases {
 public:
  // Sizes are drawn for a CPU of two cores, and are `scale` times as large, then rounded up to a
  // multiple.
  StudyCases(uint32_t seed, double scale, int64_t multiple)
      : random_(seed), scale_(scale), multiple_(multiple) {}
  StudyCase next(size_t number);

 private:
  // Logarithmically uniform.
  int64_t size(double low, double high);
  std::mt19937 random_;
  double scale_;
  int64_t multiple_;
};

// The case compiled, with all stages.
std::shared_ptr<const Executable> study_executable(const std::shared_ptr<Engine>& engine,
                                                   const StudyCase& c, DType type);

// Of a kernel's schedules, how many are looked at.
constexpr size_t kStudiedSpace = 100000;
// A schedule's text without line breaks, by which a file names it.
std::string one_line(const Schedule& schedule);

}  // namespace tile::bench
