// Objects in memory that tell a debugger of functions which are in memory already: ELF without
// code, with DWARF 4.
#pragma once

#include <string>
#include <vector>

#include "backends/cpu/code_symbols.h"
#include "runtime/engine/inspect/source_line.h"

namespace tile::gdb {

struct Function {
  std::string name;
  SourceLine line;
  cpu::CodeSymbol symbol;
  std::vector<int> others;  // lines of the same file that it computes, too
  std::string frames;       // see cpu::code_frames()
};

// A section that lies where the function is, a symbol, a line table, lexical blocks for the parts
// of the function, and its frames.
std::string object_of(const Function& function);

}  // namespace tile::gdb
