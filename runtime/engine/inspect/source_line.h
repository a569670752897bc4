// The line of a program's text that code is for.
#pragma once

#include <string>

namespace tile {

struct SourceLine {
  std::string file;
  int number = 1;  // counted from 1
};

}  // namespace tile
