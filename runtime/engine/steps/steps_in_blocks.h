// Steps on the CPU in blocks of space and time (core/schedule/cost/time_tiles.h): several trips of
// a loop block by block, where each kernel of the step is one parallel loop over a grid. Whether
// that is faster than step after step is found out while the loop runs (way_race.h): both compute
// the same, bit for bit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/schedule/cost/time_tiles.h"
#include "runtime/engine/executable.h"
#include "runtime/engine/steps/time_steps.h"
#include "runtime/engine/steps/way_race.h"

namespace tile {

// A launch of the step with code whose parallel loop is the grid.
struct LaunchInBlocks {
  std::shared_ptr<const Code> code;
  std::string key;   // of the code in the kernel cache
  int64_t turn = 0;  // after the launches of the step whose results it needs, of earlier turns
  Schedule schedule;
};

// Of a step's executable, beside which it lives.
struct StepsInBlocks {
  std::vector<LaunchInBlocks> launches;  // as the step's
  int64_t turns = 1;                     // of a trip
  std::vector<TimeTiles> tiles;          // ways to run trips, beside step after step; not empty
  std::shared_ptr<WayRace> race;         // way 0: step after step; way i: tiles[i - 1]
  int64_t trips_at_a_time() const;       // the most that tiles have
};

// The tiles to try, of these dimensions without blocks, where a trip has so many turns.
using ChosenTiles = std::function<std::vector<TimeTiles>(
    const std::vector<TiledDimension>& dimensions, int64_t turns)>;
// Whatever the model finds; null where steps cannot be run in blocks, or none are chosen.
std::shared_ptr<const StepsInBlocks> steps_in_blocks(const Executable& step,
                                                     std::span<const Feed> feeds,
                                                     const ChosenTiles& choose);
// For a loop of `trips` runs of the step; null where steps after steps are all there is, or where
// the model finds that nothing else can pay. The step's stages are there. Throws what making code
// throws.
std::shared_ptr<const StepsInBlocks> steps_in_blocks(const Executable& step,
                                                     std::span<const Feed> feeds, int64_t trips);

// Whether the step can be run so: for what comes from a record.
bool takes_blocks(const Executable& step, const StepsInBlocks& blocks);
// Whether kernels compute the same bits still, where others were chosen for the step since.
bool computes_the_same(const Executable& step, const StepsInBlocks& blocks);

// The way that the last race found fastest, "step by step" or as print() of the tiles; empty: there
// was no race yet.
std::string found_fastest(const StepsInBlocks& blocks);
// "step by step, or 8 trips at a time over 4 x 4 blocks of …, whichever is found faster", and what
// was found.
std::string print(const StepsInBlocks& blocks);

// What runs of one have found of its loops the other knows, too.
void share_races(const Executable& from, Executable& to);

}  // namespace tile
