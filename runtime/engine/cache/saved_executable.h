// Executables as bytes that a host keeps: machine code and all that runs need, without the program.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "runtime/engine/executable.h"

namespace tile {

// Throws Failure (run, "unsupported") where the executable is for a GPU or has no code.
std::vector<std::byte> saved_executable(const Executable& executable);

// The executable of such bytes, ready to run on the engine; `saved` is set in it. Throws Failure:
// "saved" for bytes that are none, damaged ones and those of another build of the library;
// "target" for code that this processor, or the engine, does not run; "unsupported", "memory". The
// checks find damage and mistakes; machine code that was made to do harm does it.
std::shared_ptr<const Executable> loaded_executable(const std::shared_ptr<Engine>& engine,
                                                    std::span<const std::byte> bytes);

}  // namespace tile
