// Cycles of single instructions that several parts of the model count.
#pragma once

namespace tile {

constexpr double kFmaLatency = 4;       // cycles
constexpr double kOperation = 0.5;      // cycles of a simple vector operation: two a cycle
constexpr double kLoad = 0.5;           // of a contiguous or broadcast vector load
constexpr double kGatheredLane = 0.62;  // of one lane of a gather
constexpr double kIteration = 0.7;      // of a serial loop around a tile, mostly hidden
constexpr double kFarSums = 300;        // of waiting for a tile's sums from behind the second cache

}  // namespace tile
