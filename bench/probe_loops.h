// The loops behind the ceilings, for the widest vectors that this CPU has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tile::bench {

struct ProbeLoops {
  const char* name;
  double operations_per_call;           // arithmetic operations of multiply_add(1)
  void (*multiply_add)(int64_t calls);  // on registers alone
  // Reads `bytes`, a multiple of 1024, aligned to 64.
  void (*read)(const void* data, size_t bytes);
};
const ProbeLoops& probe_loops();

}  // namespace tile::bench
