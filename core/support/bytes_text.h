// Numbers of bytes for people.
#pragma once

#include <cstddef>
#include <string>

namespace tile {

// "1000 bytes", "2.5 MiB", "8 PiB": three digits of the largest unit that it has one of.
std::string bytes_text(size_t bytes);

}  // namespace tile
