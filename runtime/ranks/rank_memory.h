// Where a run of a rank's program keeps what its caller does not give: one arena for the tensors
// between segments and exchanges, and for parts that cannot be sent or received where they are.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/distribute/segments.h"
#include "core/ir/ranks/rank_program.h"

namespace tile {

struct RankMemory {
  // Of a tensor that is a view of itself: its first byte in the arena; none of inputs, outputs,
  // constants and parts of other tensors.
  IdVector<TensorId, std::optional<size_t>> places;

  // A part of an exchange: within the tensor, whose cells of the part stand side by side, or in the
  // arena.
  struct Part {
    bool in_tensor = false;
    size_t offset = 0, bytes = 0;
  };
  // Cells that the rank gives itself: parts of these numbers, which are copied from the source to
  // the result and have no bytes in between.
  struct Own {
    size_t sent = 0, received = 0;
  };
  struct Moved {
    std::vector<Part> sends, receives;  // as those of the exchange
    std::vector<Own> own;               // none of an exchange that combines what it receives
    bool clears = false;  // cells of the result that nothing is received for are to be zero
  };
  std::vector<Moved> exchanges;
  // A tensor that is read before anything is written to it: its cells are zero.
  struct Zeros {
    TensorId tensor;
    size_t step = 0;  // of the first read
  };
  std::vector<Zeros> zeros;
  size_t bytes = 0;  // of the arena
};

// The first cell of a box whose cells stand side by side in a dense tensor, if they do.
std::optional<size_t> first_of_run(const Shape& shape, const Box& box);

// Of the rank with this number. Throws Overflow.
RankMemory plan_memory(const RankProgram& rank, size_t number, const SegmentedProgram& segmented);

}  // namespace tile
