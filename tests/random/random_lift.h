// Random well-typed compositions of Lift patterns, with what a direct interpreter of patterns on
// nested arrays makes of their input.
#pragma once

#include <string>
#include <vector>

namespace tile::test {

struct LiftTrial {
  std::string text;  // of one argument, x
  std::vector<int> dims;
  std::vector<double> input;
  std::vector<int> expected_dims;
  std::vector<double> expected;
};
LiftTrial lift_trial(unsigned seed);

}  // namespace tile::test
