// The MFG front end: lexer, parser, elaboration. README.md states what programs may hold.
#pragma once

#include "core/ir/program.h"

namespace tile {

// Throws Failure of stage parse.
Program parse_mfg(SourcePtr source);

}  // namespace tile
