// What a rank needs of the tensors that a piece of a contraction reads: the image of its part of
// the domain under each access.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/bound.h"
#include "core/ir/ranks/box.h"
#include "core/lattice/simple_system.h"

namespace tile {

// How an index meets the ends of its dimension on a rank's part of the domain.
enum class Reach : uint8_t {
  inside,   // nowhere: no boundary rule acts
  ruled,    // where it leaves the dimension its rule gives an element, or zero
  wrapped,  // past an end, where the elements at the other end follow
};

// The cells that one access reads, dimension by dimension. Along a wrapped dimension they are
// numbered on past the ends: -1 is the last element.
struct Need {
  Box box;
  std::vector<Reach> reach;
  std::vector<int64_t> shift;  // whole turns to take from the index of a dimension that wraps
};

struct PieceNeeds {
  bool empty = false;       // the rank has no point of the piece
  std::vector<Need> loads;  // one for each load of the piece
  double points = 0;        // at most so many points
};

// lo <= iterator < hi, of the iterator with this name.
struct IndexRange {
  std::string name;
  int64_t lo = 0;
  int64_t hi = 0;
};

// For the points of the piece whose stores are in the box, with `ranges` besides. The ranges' names
// are iterators of the piece. A box is the smallest that holds all cells, but for searches that end
// at a limit. Throws Overflow.
PieceNeeds needs_of(const BoundProgram& program, const Piece& piece, const Box& stores,
                    const std::vector<IndexRange>& ranges);

// The same for many parts of one piece: what does not depend on the part is found once, and where
// the domain is simple nothing is searched.
class PieceImages {
 public:
  PieceImages(const BoundProgram& program, const Piece& piece);
  PieceNeeds of(const Box& stores, const std::vector<IndexRange>& ranges) const;

 private:
  std::optional<PieceNeeds> without_search(const Box& stores,
                                           const std::vector<IndexRange>& ranges) const;

  const BoundProgram& program_;
  const Piece& piece_;
  lattice::System domain_;
  lattice::Bounds bounds_;  // of the whole domain
  std::optional<lattice::SimpleSystem> simple_;
};

// The values that an iterator takes on the whole domain; lo == hi: none.
IndexRange range_of(const BoundProgram& program, const Piece& piece, const std::string& iterator);

// The parts of a need in the tensor itself, each with the place of its first cell in the need's own
// numbers.
struct NeedPart {
  Box cells;
  std::vector<int64_t> at;
};
std::vector<NeedPart> unwrapped(const Box& box, const Shape& shape);

}  // namespace tile
