// Diagnostics as JSON where they have no place in a text, or a stage of their own.
#pragma once

#include <string>
#include <string_view>

#include "core/support/diagnostic.h"

namespace tile {

// What render_json() gives, of parts that are known. Line and column are 0 where there is no place.
std::string json_of(const Diagnostic& diagnostic, std::string_view stage, std::string_view file,
                    Position place, std::string_view text);

}  // namespace tile
