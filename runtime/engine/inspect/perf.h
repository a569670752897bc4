// Linux's `perf` is told of compiled code: by a map file, which names addresses, and by a dump
// (jitdump), which has the code and its lines, too.
//
// Off by default. TILE_PERF=map writes /tmp/perf-PID.map, as `perf report` looks for it;
// TILE_PERF=dump writes jit-PID.dump in $JITDUMPDIR, else in the working directory, for
// `perf record -k mono` and `perf inject --jit`; TILE_PERF=map,dump writes both.
#pragma once

#include <string>

#include "backends/cpu/code_symbols.h"
#include "runtime/engine/inspect/source_line.h"

namespace tile::perf {

bool is_on();
// Names a function. Thread safe. What cannot be written is left out.
void tell(const cpu::CodeSymbol& symbol, const std::string& name, const SourceLine& line);

}  // namespace tile::perf
