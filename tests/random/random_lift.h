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
// Mostly views on one another: paddings of all rules, windows, splits, joins, transpositions, of
// dimensions 1, 2 and primes.
LiftTrial lift_view_trial(unsigned seed);

// A function of two arguments: one rearranged and computed on, combined with the other cell by cell
// or as a product, windows of two dimensions among it. The reference interpreter says what it
// means.
struct LiftPair {
  std::string text;  // of x and z
  std::vector<int> x, z;
};
LiftPair lift_pair(unsigned seed);

}  // namespace tile::test
