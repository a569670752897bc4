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
  double launch_ns = 0;      // between two dependent kernels of one stream
  double matrix_per_ns = 0;  // bf16 multiply-adds of the tensor cores, per multiprocessor
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

// How products of f32 may be computed where the target has tensor cores; elsewhere each is f32.
enum class Precision : uint8_t {
  f32,   // factors as they are
  tf32,  // factors rounded to the 10 fraction bits of tf32
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
  double parallel_overhead_ns = 2000;  // cost of starting a parallel loop
  double class_work_ns = 20000;        // work from which one kernel serves a class of sizes
  bool strict_skip = true;             // rule 4.12
  Precision precision = Precision::f32;
  GpuLimits gpu;
};

inline bool is_gpu(const Target& target) { return target.gpu.multiprocessors > 0; }
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
