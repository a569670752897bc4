// Runs printed SIMT kernels on the host. The threads of a block are fibres of one host thread,
// which take turns in a random order and are interrupted at random accesses. Barriers and exchanges
// inside warps are exact; a barrier that only some threads reach, or a block that never ends, is an
// error, and so is every pair of accesses that no barrier orders (see races.h).
#pragma once

#include <cstddef>

namespace tile_emulation {

// Memory that kernels may share from now on; no two ranges overlap.
void add_memory(const void* begin, size_t bytes);
void drop_memory(const void* begin);
// Whether pointers to a range are `__restrict__` from now on: what one thread writes there no other
// may read in the same launch, whatever barriers stand between, since the compiler may have moved
// the loads.
void restrict_memory(const void* begin, bool restricted);

// Fills memory with what is not a number in any type of reals, and large as an integer.
void fill_with_nonsense(void* memory, size_t bytes);

// What a tensor map says, innermost dimension first; elements outside of the sizes are zero.
struct BoxMap {
  const unsigned char* base;
  unsigned rank, element_bytes;
  unsigned long long sizes[5], strides_bytes[5];
  unsigned box[5], steps[5];
};

// One launch. `grid` and `block`: their three extents. `blocks`: of a cluster, along x. Null, or
// what the kernel did wrong, valid until the next launch.
const char* emulate(void (*kernel)(), int arguments, void* const* values, const unsigned* grid,
                    const unsigned* block, unsigned long shared_bytes, unsigned blocks);

}  // namespace tile_emulation
