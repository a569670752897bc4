// Names of kernels for profilers and debuggers: the program, the line of the statement, and the
// tensor that it makes. Made only where somebody asks: see is_wanted().
#pragma once

#include <string>

#include "runtime/engine/executable.h"
#include "runtime/engine/inspect/source_line.h"

namespace tile {

// Whether a trace is kept, or perf or gdb is told of code. An executable is then not taken from its
// record, which has no names.
bool names_are_wanted();

// Where its statement is in the program's text.
SourceLine line_of(const Executable& executable, const Launch& launch);

// "P"; of a launch that is no kernel "sort", "scatter" or "loop".
std::string name_of(const Launch& launch);
// "softmax.tile:5 P"; of a launch that is no kernel "softmax.tile:5 sort".
std::string name_of(const Executable& executable, const Launch& launch);

// Tells perf and gdb of the code of all launches, where they are asked for.
void tell_names(const Executable& executable);
// The same of other code that does what a launch does, named "softmax.tile:5 P in blocks".
void tell_names(const Executable& executable, const Launch& launch,
                const std::shared_ptr<const Code>& code, const std::string& how);

}  // namespace tile
