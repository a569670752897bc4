// The functions that every program has.
#pragma once

#include <string_view>
#include <vector>

namespace tile::mfg {

bool is_builtin_function(std::string_view name);
// All of them but the conversions that types' names are.
std::vector<std::string_view> builtin_functions();

}  // namespace tile::mfg
