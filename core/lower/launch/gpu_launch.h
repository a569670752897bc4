// GPU forms of nests and schedules. A GPU nest's top-level statements are workspace allocations and
// grid loops: one kernel launch each.
#pragma once

#include <functional>
#include <vector>

#include "core/nest/nest.h"
#include "core/target/target.h"

namespace tile::gpu {

// Binds a nest with parallel loops to the GPU: each iteration of a top-level parallel loop becomes
// a thread of its own; what stands between them runs as one thread. Grid loops stay.
nest::Nest bind_grid(nest::Nest nest, const Target& target);
nest::Block bind_grid(nest::Block block, const IdVector<nest::BufferId, nest::Buffer>& buffers,
                      const Target& target);

// One launch of nested independent loops over `counts` iterations, outermost first: `inside` makes
// a thread's code from the loops' values. Neighbouring threads have neighbouring values of the last
// loops, and compute them without dividing; where blocks differ in more than three loops,
// each divides once for the outermost.
struct Walk {  // of an iteration of the last loop along memory
  int64_t elements = 1;
  DType type = DType::f32;
};
nest::Block tiled_launch(const std::vector<int64_t>& counts, const Walk& walk, const Target& target,
                         const std::function<nest::Block(const std::vector<Expr>&)>& inside);

// One launch instead of several that do not depend on each other, where their blocks have equally
// many threads: neighbouring grid loops of the list become one, each with blocks of its own.
nest::Block merged_launches(nest::Block launches);

// Threads of a block for that many independent tasks: full blocks, unless that leaves
// multiprocessors idle.
int64_t threads_for(int64_t tasks, const Target& target);

}  // namespace tile::gpu
