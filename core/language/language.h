// The front ends. A language is one folder and one row of the table in language.cpp.
#pragma once

#include <optional>
#include <string_view>

#include "core/ir/program.h"

namespace tile {

enum class Language : uint8_t { tile, mfg, lift };
std::optional<Language> parse_language(std::string_view name);      // "tile", "mfg", "lift"
std::optional<Language> language_of_suffix(std::string_view path);  // "x.tile" -> tile
std::string_view to_string(Language language);

// Text -> Program. Throws Failure of stage parse.
Program parse(Language language, SourcePtr source);

}  // namespace tile
