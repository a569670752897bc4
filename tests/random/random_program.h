// Random Tile programs for differential tests: texts with inputs, deterministic from a seed. Every
// program parses and binds, and no `=` writes a cell twice.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/ir/bound.h"
#include "core/ir/scalar.h"

namespace tile::test {

// What a program contains, in the words of the histogram: "aggregation +", "type f16", "rational
// access", "coupled output", "constraint", "empty set", "size 1", …
using Features = std::set<std::string>;

struct RandomCase {
  std::string text;
  std::vector<InputType> types;
  std::vector<HostTensor> inputs;
  // Whether every order of aggregation and every correct backend gives the same bits: integers
  // small enough for the types they are summed in, and no inexact operation.
  bool exact = true;
  Features features;
};

struct RandomOptions {
  bool large = false;        // more than 4096 points, beyond what a tile or a vector covers
  bool real_values = false;  // reals, NaN and infinities as inputs; then nothing is exact
};

RandomCase random_case(uint64_t seed, const RandomOptions& options = {});

// For each input of a program whether it names elements (gather, scatter) or is a seed of random
// numbers, and so stays an integer when the others are made floats.
std::vector<bool> index_inputs(const Program& program);

// The seeds that a test visits: first, first + 1, … The environment variable TILE_TEST_SEEDS takes
// others, "FIRST:COUNT", to search longer or to reproduce a case, or an Nth of them, "/N".
std::vector<uint64_t> seeds(uint64_t first, uint64_t count);

}  // namespace tile::test
