// Which build this is: part of cache keys.
#pragma once

#include <string>

namespace tile {

// The linker's build id of the library or program that holds this code; without one, its size and
// time.
std::string build_identity();

}  // namespace tile
