// The guard over a sequence of launches and its memory plan, always on: it takes a few microseconds
// of a compilation of milliseconds.
#pragma once

#include "runtime/engine/executable.h"

namespace tile {

// Throws InternalError unless, by what the launches' own code reads and writes: every launch has as
// many arguments and parameters as its code takes; every argument is an input, a constant or
// written by a launch before, and none is written twice; what a launch writes it has under one
// name; views are where their sources are; the results are all written, each to a place of its own;
// and tensors that share bytes of the arena are never live at the same time, where a tensor lives
// from the launch that writes it to the last one that reads it, or to the end.
void verify_launches(const Executable& executable);

}  // namespace tile
