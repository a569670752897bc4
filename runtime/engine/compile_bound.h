// Compiling programs that are bound already: parts of what a rank of a mesh runs.
#pragma once

#include <memory>

#include "core/ir/bound.h"
#include "runtime/engine/executable.h"

namespace tile {

// The executable of a bound program, whose inputs are dense. `source` is the program that it is a
// part of, for errors. Kernels are cached as those of any program; no record of the whole is kept.
// Throws Failure.
std::shared_ptr<const Executable> compile_bound(const std::shared_ptr<Engine>& engine,
                                                const std::shared_ptr<const Program>& source,
                                                BoundProgram bound);

}  // namespace tile
