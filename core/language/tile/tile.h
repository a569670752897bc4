// The Tile front end (core/language/tile/REFERENCE.md): lexer, parser, elaboration.
#pragma once

#include <span>
#include <string_view>

#include "core/ir/program.h"

namespace tile {

Program parse_tile(SourcePtr source);

// A scalar expression in the given operand names (load slots 0, 1 …), as the rows of operations.def
// write their derivatives. Throws Failure of stage parse.
Body parse_scalar_expression(std::string_view text, std::span<const std::string_view> operands);

}  // namespace tile
