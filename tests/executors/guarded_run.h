// Runs of compiled code in memory that shows what a run may not do: read or write beside a tensor,
// write an input, use what nobody has stored.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/engine/executable.h"
#include "tests/executors/guarded_memory.h"

namespace tile::test {

// How the tensors of a run lie. Each input, output and temporary, the workspace and the scratch
// memory of each thread has pages of its own, between forbidden ones.
struct Placing {
  Edge edge = Edge::end;
  // What memory holds that nobody has written. Two runs with different patterns tell whether any
  // of it decides a result.
  std::byte poison{0x5a};
  int64_t offset = 0;  // elements between the edge and the tensors: none is aligned to a vector
  // Temporaries each by itself; else where the executable's memory plan has them, so that lives
  // that overlap show.
  bool apart = true;
  bool transposed_outputs = false;  // outputs have transposed_strides()
};

// Inputs are dense here and lie as the executable was compiled for (see Laid). Throws InternalError
// that names what was touched, or written between the elements of an output.
std::vector<HostTensor> run_placed(const Executable& executable,
                                   const std::vector<HostTensor>& inputs, const Placing& placing);

// Runs under several placings, which must agree bit for bit. Throws InternalError.
std::vector<HostTensor> run_guarded(const Executable& executable,
                                    const std::vector<HostTensor>& inputs);

}  // namespace tile::test
