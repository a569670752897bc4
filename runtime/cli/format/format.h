// Formatting of programs (`tile fmt`): spaces, indentation and blank lines in one style. The line
// breaks of the author stay, but a Tile program has one statement on a line. Comments stay where
// they are.
#pragma once

#include <string>

#include "core/language/language.h"

namespace tile::cli {

// The formatted text, which has the same tokens and the same comments as the source's; formatting
// it again changes nothing. Throws Failure for a text that is no program of the language.
std::string formatted(Language language, const SourcePtr& source);

}  // namespace tile::cli
