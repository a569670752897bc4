// gdb is told of compiled code by its JIT interface: each kernel is a function of its program's
// text, with the lines of its statements, so that a backtrace names it and `break FILE:LINE` stops
// where it begins. Inside it has no lines: its statements' loops are one.
//
// Off by default; TILE_GDB=1. It costs a few hundred bytes for each function, which stay.
#pragma once

#include <string>
#include <vector>

#include "backends/cpu/code_symbols.h"
#include "runtime/engine/inspect/source_line.h"

namespace tile::gdb {

bool is_on();
// Thread safe. The code is known as long as the process lives. `others`: lines of the same file
// that it computes, too.
void tell(const cpu::CodeSymbol& symbol, const std::string& name, const SourceLine& line,
          const std::vector<int>& others);

}  // namespace tile::gdb
