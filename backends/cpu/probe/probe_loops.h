// The loops behind measured rates, for the widest vectors that this CPU has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tile::cpu {

struct ProbeLoops {
  const char* name;
  double operations_per_call;           // arithmetic operations of multiply_add(1)
  void (*multiply_add)(int64_t calls);  // on registers alone
  // Reads `bytes`, a multiple of 1024, aligned to 64.
  void (*read)(const void* data, size_t bytes);
  // Stores as many bytes around the caches, copied from there or, of null, zeros; `to` aligned to
  // 64. nullptr where this processor has no such stores.
  void (*store_around_caches)(void* to, const void* from, size_t bytes);
};
const ProbeLoops& probe_loops();
// f32 multiply-adds of one call with vectors of so many bits; nullptr where this CPU has none.
struct MultiplyAdd {
  void (*run)(int64_t calls) = nullptr;
  double multiply_adds_per_call = 0;
};
MultiplyAdd multiply_add_of(int vector_bits);

}  // namespace tile::cpu
