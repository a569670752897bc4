// The register tile of a schedule: its iterators, and how many values of each it takes.
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/facts/piece_facts.h"

namespace tile {

struct TileShape {
  TileShape(const PieceFacts& facts, const PieceSchedule& s);

  std::vector<size_t> iterators;  // of the register tile
  std::vector<int64_t> blocks;    // their sizes in a full tile
  IteratorId vector;
  IteratorId joined;  // the other iterator of the vector's lanes, and how many of its values
  int64_t rows = 1;
  int64_t copies = 1;
  double unroll = 1;
  int64_t group = 1;  // packed neighbours of a dot
  IteratorId turned;  // unrolled directly around the vector loop

  bool has_lanes_of(size_t iterator) const {
    return IteratorId(iterator) == vector || IteratorId(iterator) == joined;
  }
  // Vectors that `size` values of the iterator are; of one that has no lanes, the values.
  double vectors_of(const PieceFacts& facts, size_t iterator, int64_t size) const;
  // Rows of a block of the access that the tile turns; 1: it does not.
  int64_t transposed_rows(const AccessFacts& a) const;

 private:
  void take_blocks(const PieceFacts& facts, const PieceSchedule& s);
};

}  // namespace tile
