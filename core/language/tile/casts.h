// The names of the functions that convert to an element type (rule 5.6).
#pragma once

#include <span>
#include <string_view>

namespace tile {

std::span<const std::string_view> cast_functions();

}  // namespace tile
