// What one access of a piece reads or writes, whatever the schedule.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/ir/bound.h"
#include "core/schedule/facts/access_block.h"
#include "core/schedule/facts/body_facts.h"

namespace tile {

constexpr int64_t kLanesTogether = 8;  // the largest stride of lanes that are read together

struct AccessFacts {
  const Access* access = nullptr;
  Shape shape;                            // of the tensor
  IdVector<IteratorId, int64_t> strides;  // in elements
  int bytes = 4;                          // of an element
  bool store = false;
  bool gathers = false;                 // an index is a value that data decide
  double times = 1;                     // how often a point reads it
  double conversion = 0;                // cycles of converting a vector of it, once for each read
  std::vector<BodyFacts::Moves> moves;  // by dimension, of indices that are values
  std::vector<bool> decided;            // by dimension: data decide the index
  // By dimension: the iterators that move the index, and how far.
  std::vector<std::vector<std::pair<size_t, double>>> steps;
  double uses = 1;    // how often each element that the access touches is read or written
  bool fixed = true;  // no iterator in it
  bool kept = false;  // copies of it may be made before all runs

  // What it touches of the tensor while the iterators run over the range.
  AccessBlock block(Range range) const;
  double footprint(Range range) const { return block(range).bytes(); }  // bytes
  // The bytes of a copy of that block, which is dense.
  double packed_bytes(Range range) const;
  // Whether a tile that unrolls `rows` reads blocks of the access whose lanes along `vector` memory
  // has apart as vectors along the rows, and turns them in registers.
  bool turns(IteratorId vector, size_t rows) const;
  // The part of `rows * taps` reads that name different elements while a parallel dimension runs
  // over `rows` values and a reduction over `taps`: less than 1 where windows of neighbours
  // overlap.
  double distinct_part(size_t parallel_dim, int64_t rows, size_t reduction, int64_t taps) const;
};

// Whether two accesses of a tensor are at a distance inside the block that they touch.
bool are_near(const AccessFacts& a, const AccessFacts& b, Range range);

}  // namespace tile
