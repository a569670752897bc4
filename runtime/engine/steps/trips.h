// The trips of a loop over a step, on the CPU: where the state of each trip is, and the way that
// each group of trips is run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/engine/steps/steps_in_blocks.h"

namespace tile {

// A tensor that the step is given: its inputs, then its outputs. Trip 0 gets `first`, trip t > 0
// what stands at t % 2.
struct GivenInTime {
  void* first = nullptr;
  void* by_parity[2] = {};
  void* at(int64_t trip) const { return trip == 0 ? first : by_parity[trip % 2]; }
};

// The pointers that a step with so many inputs is given in each of `trips` trips. `tensors`: those
// of the first trip's inputs, and the outputs of the last one. `spare`: beside each fed output's
// memory as much; null for others. What is fed alternates between the two.
std::vector<GivenInTime> given_in_time(std::span<void* const> tensors, size_t inputs,
                                       std::span<const Feed> feeds, std::span<void* const> spare,
                                       int64_t trips);

// A loop's trips, by the way that is the fastest, as far as that is known.
struct Trips {
  const Executable& step;
  const StepsInBlocks& blocks;
  std::span<const GivenInTime> given;
  std::byte* arena = nullptr;  // the step's
  Control* control = nullptr;
  // Runs trips first … first + count - 1 step by step.
  std::function<void(int64_t first, int64_t count)> plain;
};
// Trips `first` … trips - 1. Throws the control's reason where it ends the loop, and what `plain`
// throws.
void run_trips(const Trips& loop, int64_t first, int64_t trips);

// `count` trips at most as many as the tiles have at a time, in blocks.
void run_in_blocks(const Trips& loop, const TimeTiles& tiles, int64_t first, int64_t count);

}  // namespace tile
