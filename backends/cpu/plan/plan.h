// Decides, before emission, which functions a nest becomes and where its buffers live.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "backends/cpu/plan/long_loops.h"
#include "core/nest/nest.h"

namespace tile::cpu {

// One function: a parallel loop or the middle one of a doacross loop, or a run of other top-level
// statements.
struct Entry {
  size_t first = 0;  // statements [first, last) of the nest's body
  size_t last = 0;
  bool parallel = false;
  bool chained = false;  // with the next two, of loops over the same turns (doacross.h)
};

// How a register buffer divides into cells, each promoted to one machine value: along
// `lane_dimension` `width` elements make a vector; the other dimensions' indices are constants.
struct CellLayout {
  int lane_dimension = -1;  // -1: cells are scalars
  int64_t width = 1;
  // No loop with more lanes reads what one with fewer has stored: lanes behind its last may become
  // anything.
  bool loose = false;
};

// `tiles`: in a tile register.
enum class Home : uint8_t { argument, workspace, scratch, cells, tiles };
struct Place {
  Home home = Home::argument;
  int64_t offset = 0;  // bytes into the workspace or scratch memory
  CellLayout cells;
  // A large argument that a nest of more than the caches hold only assigns to: whole cache lines
  // may be written past the caches, which saves reading them first.
  bool non_temporal = false;
};

struct Plan {
  std::vector<Entry> entries;
  IdVector<nest::BufferId, Place> places;
  LongLoops long_loops;  // of the nest that was planned, which must outlive this
  int64_t workspace_bytes = 0;
  int64_t scratch_bytes = 0;
};

// Throws Failure (compile, "limit") if the memory that the nest needs cannot be counted in 64 bits.
Plan plan(const nest::Nest& nest);

// Whether a loop is written out; a loop too long for that runs as a serial one.
bool writes_out(const nest::For& loop);
// Lanes of a vector loop's machine vector: the next power of two.
unsigned lanes_of(const nest::For& loop);
// The buffers stored to (or begun) anywhere in the statements.
std::set<nest::BufferId> stored_buffers(const nest::Block& block);

// Cell layouts of the register buffers whose accesses allow it, nullopt for the others.
IdVector<nest::BufferId, std::optional<CellLayout>> cell_layouts(const nest::Nest& nest);

}  // namespace tile::cpu
