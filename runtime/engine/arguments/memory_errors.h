// Errors of code "memory" that name what takes it, at its place in the program's text.
#pragma once

#include <string>

#include "runtime/engine/executable.h"

namespace tile {

// A run needs so many bytes, of which temporaries are a part, more than the limit.
[[noreturn]] void fail_memory_limit(const Executable& executable, Stage stage, size_t needed,
                                    size_t limit);
// The memory of a run's temporaries, or of an output, is not to be had; `why`: what its owner says.
[[noreturn]] void fail_temporaries(const Executable& executable, const Diagnostic& why);
[[noreturn]] void fail_output(const Executable& executable, size_t output, const Diagnostic& why);
// Throws Failure (run, "memory") if a caller that is about to allocate all outputs cannot, as this
// machine has not the memory.
void check_output_memory(const Executable& executable);

}  // namespace tile
