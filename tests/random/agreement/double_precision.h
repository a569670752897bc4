// Programs with other roundings: in double precision, so that central differences can measure
// gradients, or with results of statements moved by a little.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "core/ir/program.h"

namespace tile::test {

// The program with f64 in place of f32 everywhere.
Program in_double(Program program);

// The program with each real result of a statement, in contractions each point's, multiplied by 1 +
// `by` times a number of [-1, 1]: what roundings of intermediate results may do where no real input
// can be moved, or where terms cancel. `real_results`: the names of tensors that are real.
Program with_moved_results(Program program, const std::set<std::string>& real_results, double by,
                           uint64_t seed);

}  // namespace tile::test
