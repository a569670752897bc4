// bind: Program + shapes and types of its inputs -> BoundProgram. Checks what needs shapes (ranks,
// repeated dimensions, broadcasting, sizes, bounded indices), infers element types with weak
// literals (section 5), and turns every statement except sort and scatter into Contractions.
#pragma once

#include <vector>

#include "core/ir/bound.h"
#include "core/ir/program.h"

namespace tile {

// `inputs` in the order of program.inputs. Throws Failure of stage bind. Statements that no output
// needs are checked too.
BoundProgram bind(const Program& program, const std::vector<InputType>& inputs);

// Rule 4.7: throws Failure of stage compile if two valid points of an `=` contraction share a cell
// (exact, by lattice emptiness; `limit` past the work limit).
void check_assignments(const BoundProgram& program);

}  // namespace tile
