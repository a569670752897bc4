// gdb is told of compiled code by its JIT interface: each kernel is a function of its program's
// text, with the line of its statement, so that a backtrace names it and `break FILE:LINE` stops in
// it.
//
// Off by default; TILE_GDB=1. It costs a few hundred bytes for each function, which stay.
#pragma once

#include <string>

#include "backends/cpu/code_symbols.h"
#include "runtime/engine/inspect/source_line.h"

namespace tile::gdb {

bool is_on();
// Thread safe. The code is known as long as the process lives.
void tell(const cpu::CodeSymbol& symbol, const std::string& name, const SourceLine& line);

}  // namespace tile::gdb
