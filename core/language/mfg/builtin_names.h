// The functions that every program has.
#pragma once

#include <string_view>

namespace tile::mfg {

bool is_builtin_function(std::string_view name);

}  // namespace tile::mfg
