// How far the iterations of a parallel loop reach into each other's results, where what nests make
// is what they read the next time: which of them a blocking in time keeps in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/nest/nest.h"

namespace tile::nest {

// Cells lo … hi along a dimension of a buffer; none where lo > hi.
struct CellRange {
  int64_t lo = 0, hi = -1;
  bool empty() const { return lo > hi; }
};

// What the iterations with one number along a dimension of a grid store, by that number: disjoint
// ranges along a dimension of the buffer, in order.
struct StoredRanges {
  size_t dimension = 0;
  std::vector<int64_t> shape;  // of the buffer
  std::vector<CellRange> ranges;
};

// Iteration i reads cells of a buffer in places where iterations i - far … i + far store it; at
// least what it really does. `wraps`: the first and the last iteration are neighbours, too.
struct Reach {
  int64_t far = 0;
  bool wraps = false;
};

// The accesses of a nest that is one parallel loop, whose iterations are those of a grid: number
// t is the point whose coordinates, the last one fastest, count to t. Nothing else of the nest may
// be given at launch.
class IterationAccesses {
 public:
  // nullopt: it is no such nest, or something in it is not known (memory that iterations share,
  // loops within elements).
  static std::optional<IterationAccesses> of(const Nest& nest, const std::vector<int64_t>& grid);

  // Along dimension `along` of the grid. nullopt: the iterations' stores are not disjoint and in
  // order along any dimension of the buffer, or that is not seen (indices that data decides, too
  // many iterations to look at).
  std::optional<StoredRanges> stored(BufferId buffer, size_t along) const;
  // Of reads of a buffer that iterations of such a grid store so, in this nest or in another.
  // nullopt: it is not known what they read, or the buffer has another shape.
  std::optional<Reach> reach(BufferId buffer, size_t along, const StoredRanges& stored) const;

  // Arguments that are stored, each once.
  const std::vector<BufferId>& written() const { return written_; }
  bool reads(BufferId buffer) const;

 private:
  // The loops around an access inside the parallel one, outermost first, and its index, in the
  // coordinates of the grid.
  struct Loop {
    std::string variable;
    Expr begin, extent;
  };
  struct Place {
    BufferId buffer;
    bool store = false;
    bool by_data = false;  // an index is an element of a buffer
    std::vector<Expr> index;
    std::vector<Loop> loops;
    friend class IterationAccesses;
  };
  class Collector;
  class Footprint;

  std::vector<int64_t> grid_;
  std::vector<Place> places_;  // of arguments
  std::vector<BufferId> written_;
  std::vector<std::vector<int64_t>> shapes_;  // of the arguments
};

}  // namespace tile::nest
