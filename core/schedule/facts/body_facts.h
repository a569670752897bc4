// What the cost model knows of a body: how index values move with the iterators, how often folds
// run, and which integers need no instructions because lowering makes them index expressions.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/ir/bound.h"

namespace tile {

struct BodyFacts {
  // Of one dimension of a load's access whose index is a value: how far it moves when each iterator
  // grows by one, in the middle of the box; nullopt: data decide it, or it divides.
  using Moves = std::optional<std::vector<int64_t>>;
  struct Load {
    std::vector<Moves> moves;  // by dimension; empty: no index is a value
    double times = 0;          // how often it runs for one point
    double conversion = 0;     // cycles of casting a vector of it, not among the body's
  };
  std::vector<Load> loads;
  double cycles = 0;  // of the operations for one vector of points, folds as often as they run
  double round = 0;   // of them, one round of the folds and what is outside of folds
  double chain = 0;   // of them, rounds of folds that wait for the round before
  int bits = 8;       // of the widest type computed in
};

// `cycles` prices one operation.
BodyFacts body_facts(const Piece& piece, const std::function<double(const Node&)>& cycles);

}  // namespace tile
