// Target: the machine as plain data, probed by a backend, printed into cache keys.
#pragma once

#include <cstdint>
#include <string>

namespace tile {

struct Target {
  std::string device;    // "cpu"
  std::string features;  // what the code generator is told: "x86-64-v4 +avx512bf16 …"; part of keys
  int vector_bits = 256;  // 128, 256 or 512
  int vector_registers = 16;
  int threads = 1;  // workers that a launch may use
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;
  int64_t l3_bytes = 8 << 20;
  // Rates of the analytic model, per core: probed once, or defaults of the kind of machine.
  double fma_per_ns = 32;  // f32 multiply-adds
  double l2_bytes_per_ns = 60;
  double l3_bytes_per_ns = 20;
  double dram_bytes_per_ns = 15;
  double parallel_overhead_ns = 2000;  // cost of starting a parallel loop
  bool strict_skip = true;             // rule 4.12
};

std::string to_string(const Target& target);  // one line, every field; part of cache keys

}  // namespace tile
