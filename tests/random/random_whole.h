// Random whole programs: 5 to 40 statements that share temporaries, rows and columns mixed, scans,
// windows, masks, conditions, products, statistics, operations on whole tensors, of all types and
// sizes, with several outputs, some of them differentiated once or twice.
#pragma once

#include "tests/random/whole_program.h"

namespace tile::test {

// Deterministic from the seed. Every program parses, binds and writes no cell of an `=` twice.
WholeProgram random_whole(uint64_t seed);

// Whether the program as a whole differentiates and runs within the limits of what is drawn. Its
// statements bind one by one: any error other than a limit is one of the compiler's, which keeps
// the program, so that whoever runs it reports the error.
bool within_limits(const WholeProgram& program);

}  // namespace tile::test
