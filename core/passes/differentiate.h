// Differentiation of a Program (spec/tile.md section 7): a symbolic transformation that needs no
// shapes.
#pragma once

#include <string>
#include <vector>

#include "core/ir/program.h"

namespace tile {

// The program whose outputs are those of `program` followed by, for each input named in `wrt`, the
// vector-Jacobian product of output `of` with a new last input (the seed, shape and type of `of`).
// The result prints as Tile text, parses again, and can be differentiated again. Throws Failure
// (bind) for an unknown name, an integer-only path asked for, or an operation without derivative.
Program differentiate(const Program& program, const std::string& of,
                      const std::vector<std::string>& wrt);

}  // namespace tile
