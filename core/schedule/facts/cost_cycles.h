// Cycles of single instructions that several parts of the model count. Sources, here and in the
// other files of this folder: [manual]: Intel 64 and IA-32 Architectures Optimization Reference
// Manual, cores since Skylake with
//   512-bit vectors.
// [race]: chosen so that the model's order of candidates agrees with the times that `tile-bench
//   study` and `tune` measured on x86-64 servers with AVX-512, two or more threads on virtual
//   machines; judged as a whole, so no single one is exact.
#pragma once

namespace tile {

constexpr double kOperationCycles = 0.5;      // [manual] a simple vector operation: two a cycle
constexpr double kLoadCycles = 0.5;           // [manual] a contiguous or broadcast vector load
constexpr double kGatheredLaneCycles = 0.62;  // [manual] one lane of a gather
constexpr double kIterationCycles = 0.7;      // [race] a serial loop around a tile, mostly hidden
// [race] Waiting for a tile's sums from behind the second cache.
constexpr double kFarSumsCycles = 300;

}  // namespace tile
