// Random MFG programs of differentiable operations: tuples, folds of every kind, boundary rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/program.h"
#include "core/ir/scalar.h"

namespace tile::test {

// A program of `input_f32`, an integer parameter r and an f32 parameter p, whose output is
// `result_f32`.
std::string random_filter(uint64_t seed);

// The same after passes of its own: pictures of several components, halved and enlarged ones,
// statistics of columns, rows and all, weights, samplers of any of them.
struct FilterPasses {
  std::string text;
  std::vector<std::string> outputs;  // the result, and some of the passes
};
FilterPasses random_passes(uint64_t seed);

// Inputs of an MFG program for a picture of that shape, with values in f64 where `wide`: reals of
// both signs, integers of a picture, the initial values of integer parameters, values near the
// initial ones of others.
std::vector<HostTensor> filter_inputs(uint64_t seed, const Program& program, const Shape& picture,
                                      bool wide);

}  // namespace tile::test
