// The Lift front end (core/language/lift/REFERENCE.md): functional patterns, whose layout
// operations are views.
#pragma once

#include "core/ir/program.h"

namespace tile {

// Text -> Program with one output, `out` (`out.0`, `out.1` … where the result is a tuple that one
// tensor cannot hold). Throws Failure of stage parse.
Program parse_lift(SourcePtr source);

}  // namespace tile
