// RankProgram: what one rank of a mesh runs. It is a bound program over the rank's own tensors and,
// between its statements, exchanges of elements with the other ranks. Tensor passes are given the
// stretches between exchanges and never meet one: only what runs programs of ranks knows them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/bound.h"
#include "core/ir/ranks/box.h"

namespace tile {

// Sends boxes of `source` and sets boxes of `result`. Every rank of a mesh has the same number of
// exchanges and runs them in the same order; the k-th part that one rank sends to another is the
// k-th part that the other receives from it, with the same extents. A part that a rank sends to
// itself is a copy. Cells that nothing is received for are zero. With a `reduction` cells that are
// received several times are combined, in the order of `receives` and in the tensor's type; without
// one no cell is received twice.
struct Exchange {
  struct Part {
    int64_t rank = 0;  // to which it goes, or from which it comes
    Box box;           // of the source or of the result, from the tensor's own first cell
    friend bool operator==(const Part&, const Part&) = default;
  };
  TensorId source;
  TensorId result;
  std::vector<Part> sends, receives;
  std::optional<Aggregation> reduction;
  Span span;  // of the statement that it serves
};

struct PlacedExchange {
  size_t before = 0;  // the statement that it precedes, or the number of statements: none
  Exchange what;
};

struct RankProgram {
  BoundProgram program;
  std::vector<PlacedExchange> exchanges;  // in order
};

// The text of the bound program with a statement for each exchange:
//
//   exchange R = S + {
//     send 1 [0, 0] to [2, 4]
//     receive 0 [2, 0] to [4, 4]
//   }
std::string print(const RankProgram& program);
RankProgram parse_rank_program(SourcePtr source);
// Throws InternalError naming the first broken rule of one rank's program.
void verify(const RankProgram& program);
// The same of all ranks together: each, and that what is sent is what is received.
void verify(const std::vector<RankProgram>& ranks);

}  // namespace tile
