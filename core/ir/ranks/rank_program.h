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
// itself is a copy. Cells that nothing is received for are zero, or hold anything where the
// exchange is `sparse`: nobody reads them. With a `reduction` cells that are received several times
// are combined, in the order of `receives` and in the tensor's type; without one no cell is
// received twice.
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
  bool sparse = false;
  bool piece = false;  // one of several into which one exchange was cut, on all ranks
  Span span;           // of the statement that it serves
};

// Its parts travel while the statements [before, end) run: what it reads is set before they do, and
// nothing but later statements reads its result. One without such statements is over at once.
struct PlacedExchange {
  size_t before = 0;  // the statement that it precedes, or the number of statements: none
  Exchange what;
  size_t end = before;

  bool travels() const { return end != before; }
};

// A tensor whose elements are those of a box of another one. The parts of a tensor share no cell
// and together are all of it; statements or exchanges set them, and it is set once they are.
struct PartOfTensor {
  TensorId part, whole;
  std::vector<int64_t> at;  // the place of its first cell
};

struct RankProgram {
  BoundProgram program;
  std::vector<PlacedExchange> exchanges;  // in order: of beginnings and of ends
  std::vector<PartOfTensor> parts = {};
};

Box box_of(const BoundProgram& program, const PartOfTensor& part);  // in the whole

// What a rank does, in order. Where several exchanges meet at a statement those that travelled end
// first, in order; then each begins, and ends if it does not travel.
struct RankStep {
  enum class Kind : uint8_t { statement, begin, end } kind;
  size_t number = 0;  // of the statement or the exchange
};
std::vector<RankStep> steps_of(const RankProgram& rank);

// The text of the bound program with a statement for each exchange, and one for the end of each
// that travels; then a line for each part:
//
//   exchange R = S + travels {
//     send 1 [0, 0] to [2, 4]
//     receive 0 [2, 0] to [4, 4]
//   }
//   …
//   end R
//   part T.inner of T [1, 0]
std::string print(const RankProgram& program);
RankProgram parse_rank_program(SourcePtr source);
// Throws InternalError naming the first broken rule of one rank's program.
void verify(const RankProgram& program);
// The same of all ranks together: each, and that what is sent is what is received.
void verify(const std::vector<RankProgram>& ranks);

}  // namespace tile
