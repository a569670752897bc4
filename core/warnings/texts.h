// The texts of MFG and Lift programs as their parsers read them: what is written there and gone
// from the Program.
#pragma once

#include <optional>

#include "core/ir/program.h"
#include "core/language/lift/syntax.h"
#include "core/language/mfg/syntax.h"

namespace tile::warnings {

// nullopt: the program is of another language, or has no text.
std::optional<mfg::ProgramSyntax> mfg_syntax(const Program& program);
std::optional<lift::ProgramSyntax> lift_syntax(const Program& program);

}  // namespace tile::warnings
