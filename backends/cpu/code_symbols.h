// Where compiled code is, for profilers and debuggers.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/backend.h"

namespace tile::cpu {

struct CodeSymbol {
  const void* address = nullptr;
  size_t bytes = 0;
};

// The functions of the code in this process; none of code of another backend.
std::vector<CodeSymbol> code_symbols(const Code& code);

}  // namespace tile::cpu
