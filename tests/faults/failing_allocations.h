// The C library's allocator, of which one call, or all from one on, can be made to fail. Linking it
// into a program replaces malloc for every library of the process.
#pragma once

namespace tile::test {

enum class Refuse { one, all_from };

// From now on allocations are counted from one, and refused as asked; number 0: none.
void arm_allocations(long number, Refuse refuse);
// Ends it; how many were counted.
long disarm_allocations();

}  // namespace tile::test
