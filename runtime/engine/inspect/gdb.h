// gdb is told of compiled code by its JIT interface: each kernel is a function of its program's
// text, with the lines of its statements. Names and lines are known in backtraces, at breakpoints
// and while stepping, as they are of optimised C.
//
// Off by default; TILE_GDB=1. Code is then compiled with lines (nest::Nest::source), which makes it
// no slower, and apart in all caches from code without. What gdb is told takes a few hundred bytes
// for each function and some for each line, and stays as long as the process, with the code.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "core/support/diagnostic.h"
#include "runtime/engine/inspect/gdb_object.h"

namespace tile::gdb {

bool is_on();
// The text whose lines code is to have: the source, or null where nobody asks for lines.
SourcePtr lines_of(const SourcePtr& source);
// Of a function of the code; once is enough. Thread safe.
void tell(const Function& function, std::shared_ptr<const Code> code);

}  // namespace tile::gdb
