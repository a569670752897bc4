// Compiling programs that are bound already: parts of what a rank of a mesh runs, and the stages of
// every compilation from there to kernels.
#pragma once

#include <memory>

#include "core/ir/bound.h"
#include "core/support/pass.h"
#include "runtime/engine/executable.h"

namespace tile {

// Of a bound program's inputs and outputs, in elements; empty: dense. Without an element for each
// all are dense.
struct BoundStrides {
  std::vector<std::vector<int64_t>> inputs, outputs;
};

// The executable of a bound program. `source` is the program that it is a part of, for errors. The
// strides of outputs with which launches cannot write are dropped, see Executable. Kernels are
// cached as those of any program; no record of the whole is kept. Throws Failure.
std::shared_ptr<const Executable> compile_bound(const std::shared_ptr<Engine>& engine,
                                                const std::shared_ptr<const Program>& source,
                                                BoundProgram bound, BoundStrides strides = {});

// Says which tensors are constant inputs, of which copies may be made once.
void take_constants(const Engine& engine, const std::vector<InputLayout>& inputs,
                    BoundProgram& program);
// Makes the code of all launches, on all cores; what is in memory is taken from there.
void make_codes(Executable& executable);
// How the engine's passes are run. The observer may be null.
PassOptions pass_options(const Engine& engine, PassObserver* observer = nullptr);

}  // namespace tile
