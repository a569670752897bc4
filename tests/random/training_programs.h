// The layers that people train, written as whole programs.
#pragma once

#include <string>
#include <vector>

#include "core/ir/program.h"
#include "tests/random/random_program.h"

namespace tile::test {

struct TrainingProgram {
  std::string name;
  std::string text;  // its first output is differentiated with respect to every input
  std::vector<Shape> (*shapes)(int64_t rows, int64_t columns);  // of the inputs
};

// Norms, softmax, losses, attention with and without a mask, a transformer block, a convolution
// with the statistics of its batch.
const std::vector<TrainingProgram>& training_programs();

// Differentiated, with every input; the seed is the last.
Program training_gradient(const TrainingProgram& program);
// Text and types of the program or its gradient; and with small values for the inputs.
RandomCase training_types(const TrainingProgram& program, DType type, int64_t rows, int64_t columns,
                          bool gradient);
RandomCase training_case(const TrainingProgram& program, DType type, int64_t rows, int64_t columns,
                         bool gradient);

}  // namespace tile::test
