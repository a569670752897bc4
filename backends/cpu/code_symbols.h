// Where compiled code is, for profilers and debuggers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace tile::cpu {

// From its address up to the next one's.
struct CodeLine {
  uint64_t address = 0;
  unsigned line = 0;
  unsigned part = 0;  // of the function (backends/cpu/emit/line_emitter.h)
};

struct CodeSymbol {
  const void* address = nullptr;
  size_t bytes = 0;
  // Of code that has lines, for a nest that knows its text: by address.
  std::vector<CodeLine> lines;
};

// The functions of the code in this process; none of code of another backend.
std::vector<CodeSymbol> code_symbols(const Code& code);
// Where their callers' registers are, at each instruction: DWARF's .debug_frame, with addresses of
// this process. Empty for code that has no lines.
std::string code_frames(const Code& code);

}  // namespace tile::cpu
