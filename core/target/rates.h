// What one machine was measured to do. The model's constants come from it, through the Target.
#pragma once

#include <cstdint>
#include <map>

#include "core/target/target.h"

namespace tile {

// Of one thread where nothing else is said; 0: not measured.
struct MachineRates {
  std::map<int, double> fma_per_ns;  // f32 multiply-adds, by bits of a vector
  double tile_bf16_per_ns = 0;       // multiply-adds of matrix tiles
  double tile_i8_per_ns = 0;
  double l1_bytes_per_ns = 0;  // read
  double l2_bytes_per_ns = 0;
  double l3_bytes_per_ns = 0;
  double dram_bytes_per_ns = 0;
  int64_t l3_bytes = 0;  // of the third cache, as much as is found there again
  int threads = 1;       // of the measurements below, each of all threads together
  double all_fma_per_ns = 0;
  double all_l2_bytes_per_ns = 0;
  double all_l3_bytes_per_ns = 0;
  double all_dram_bytes_per_ns = 0;
  friend bool operator==(const MachineRates&, const MachineRates&) = default;
};

// Replaces the target's constants by what was measured for its vectors.
void apply(const MachineRates& rates, Target& target);
// The target as code for it depends on it: with the constants of the model as they are before any
// measurement.
Target without_rates(const Target& target);

}  // namespace tile
