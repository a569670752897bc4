// Numbers in texts about overlap.
#pragma once

#include <cstdio>
#include <string>

namespace tile {

inline std::string three_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

}  // namespace tile
