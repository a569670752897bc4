// Loops that may run for long ask now and then whether they are to end. Which ones, and how often,
// is decided from the work of their iterations, so that code of short kernels asks nothing.
#pragma once

#include <cstdint>
#include <map>

#include "core/nest/nest.h"

namespace tile::cpu {

// Iterations between two questions, a power of two, of the loops of a nest that ask: by the address
// of a nest::For or, for a loop inside a body, of its Node of kind fold.
using LongLoops = std::map<const void*, int64_t>;
LongLoops long_loops(const nest::Nest& nest);

// What long code asks: its parameter behind those of the nest is the address of one, or 0.
struct Question {
  bool (*is_over)(const Question*) = nullptr;
};

}  // namespace tile::cpu
