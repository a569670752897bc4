// Target: the machine as plain data, probed by a backend, printed into cache keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/ir/dtype.h"

namespace tile {

// What a GPU has beside the fields that it shares with a CPU (there a core is one multiprocessor,
// `threads` counts them, and the vector is a 16-byte access). All zero on a CPU.
struct GpuLimits {
  int multiprocessors = 0;
  int capability = 0;  // compute capability: 90 for 9.0
  int warp_size = 32;
  int threads_per_block = 1024;
  int threads_per_multiprocessor = 2048;
  int registers_per_multiprocessor = 65536;
  int registers_per_thread = 255;
  int64_t shared_per_block = 0;  // bytes that one block may ask for
  int64_t shared_per_multiprocessor = 0;
  int blocks_per_multiprocessor = 32;
  double launch_ns = 0;      // between two dependent kernels of one stream
  double matrix_per_ns = 0;  // bf16 multiply-adds of the tensor cores, per multiprocessor
  // Clocks in GHz: the highest one, at which data sheets count (the driver tells it), and the one
  // that is held while the tensor cores are busy.
  double gigahertz = 0;
  double matrix_gigahertz = 0;
  // What no driver tells of a multiprocessor; gpu_target() says how each was measured. Bytes that
  // shared memory gives in a clock, that copies from the second cache bring there, and that
  // results, and sums exchanged in a cluster, leave by.
  double shared_bytes_per_clock = 0;
  double copied_bytes_per_clock = 0;
  double stored_bytes_per_clock = 0;
  double cluster_bytes_per_clock = 0;
  double memory_latency_ns = 0;  // of a dependent access to memory under load
  double cached_step_ns = 0;     // of a product's step whose operands come from the second cache
  double block_start_ns = 0;     // until a block's first loads are here and its last stores gone
  double tree_ns = 0;            // of combining the lanes of a block through shared memory
  double cluster_wait_ns = 0;    // of a stage that waits for the cluster's other blocks
};

// What is known of a CPU's core beside rates and sizes. The defaults are those of x86-64 servers.
struct CoreTimes {
  // Ways of the first two caches, and the latency of a multiply-add in cycles: Intel's cores from
  // Ice Lake on, Optimization Reference Manual, "Cache Hierarchy" and "Instruction Latency".
  double l1_ways = 12;
  double l2_ways = 16;
  double fma_cycles = 4;
  // Pages whose translations are held at once, about a second-level TLB's half for 4 KiB pages; a
  // walk for another was measured by reading one element of each page, on a virtual machine.
  double translations = 1024;
  double page_walk_ns = 40;
  // Nanoseconds of a line that another core's cache holds: for one store after another, and for
  // lines in order that go there and come back. Estimates for two cores of one socket.
  double line_of_another_ns = 40;
  double line_handed_over_ns = 25;
  friend bool operator==(const CoreTimes&, const CoreTimes&) = default;
};

// Registers of a CPU that hold matrices, and the instructions that multiply them: of neighbours
// packed in 32 bits, sum[rows][columns] += a[rows][groups] * b[groups][columns].
struct AmxTiles {
  int64_t count = 0;  // 0: there are none, or the system does not grant them
  int64_t rows = 16;
  int64_t row_bytes = 64;
  double bf16_per_ns = 0;  // multiply-adds
  double i8_per_ns = 0;
  int64_t columns() const { return row_bytes / 4; }                       // of 32 bits
  int64_t groups() const { return rows < columns() ? rows : columns(); }  // in a's rows and b's
};

// How products that are summed in f32 may be computed where the target has tensor cores; elsewhere
// each is f32.
enum class Precision : uint8_t {
  f32,  // factors as they are
  // Factors rounded to the 10 fraction bits of tf32. Of 8-bit floats, which are as they are, sums
  // of up to 128 products may be cut to 13 fraction bits.
  tf32,
  // Three products of tf32, of each factor and of what its rounding leaves: close to f32. Where an
  // infinity is a factor the sum is NaN.
  tf32x3,
};
std::string_view to_string(Precision precision);  // "f32", "tf32", "3xtf32"
std::optional<Precision> parse_precision(std::string_view text);

struct Target {
  std::string device;     // "cpu", "cuda"
  std::string features;   // what the code generator is told: "x86-64-v4 +avx512bf16 …", "sm_90a"
  int vector_bits = 256;  // 128, 256 or 512
  int vector_registers = 16;
  int threads = 1;  // workers that a launch may use
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;
  int64_t l3_bytes = 8 << 20;
  // Of the second cache, as much as stays there of data that all threads read, each in its own.
  int64_t l2_shared_bytes = 256 << 10;
  // Rates of the analytic model, per core: probed once, or defaults of the kind of machine.
  double fma_per_ns = 32;  // f32 multiply-adds
  // Multiply-adds of the instructions that take packed neighbours (Op::dot2_bf16 …); 0: none.
  double dot_bf16_per_ns = 0;
  double dot_i16_per_ns = 0;
  double dot_i8_per_ns = 0;
  AmxTiles tiles;
  double l2_bytes_per_ns = 60;
  double l3_bytes_per_ns = 20;
  double dram_bytes_per_ns = 15;
  CoreTimes core;
  double parallel_overhead_ns = 2000;  // cost of starting a parallel loop
  double class_work_ns = 20000;        // work from which one kernel serves a class of sizes
  bool strict_skip = true;             // rule 4.12
  Precision precision = Precision::f32;
  GpuLimits gpu;
};

inline bool is_gpu(const Target& target) { return target.gpu.multiprocessors > 0; }
// Multiply-adds of f32 in a clock of a GPU's multiprocessor.
inline double lanes_per_clock(const Target& gpu) { return gpu.fma_per_ns / gpu.gpu.gigahertz; }
// Data-sheet descriptions, so that everything up to machine code works without a device.
Target h200_target();  // features "sm_90a"
Target a100_target();  // features "sm_80"
// The description of some device of the architecture ("sm_75", "sm_80", "sm_90a" …); nullopt for
// another text.
std::optional<Target> gpu_target(std::string_view features);

// Multiply-adds of the type in a nanosecond on one multiprocessor's tensor cores, at the target's
// precision; 0: they compute no such products.
double tensor_core_rate(DType type, const Target& target);

std::string to_string(const Target& target);  // one line, every field; part of cache keys

}  // namespace tile
