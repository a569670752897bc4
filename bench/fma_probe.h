// A loop of multiply-adds on registers, for the widest vectors that this CPU has.
#pragma once

#include <cstdint>

namespace tile::bench {

struct FmaProbe {
  const char* name;
  double operations_per_call;  // arithmetic operations of run(1)
  void (*run)(int64_t calls);
};
const FmaProbe& fma_probe();

}  // namespace tile::bench
