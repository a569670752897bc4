// Statements of a program between products of rows and columns (scores) and what sums them up, and
// how each user of the scores can have scores of its own. Private to core/layout.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/ir/analysis/statement_uses.h"
#include "core/ir/bound.h"
#include "core/target/target.h"

namespace tile::layout {

struct ScoreRegion {
  std::set<size_t> cells;  // statements whose results have rows and columns
  std::set<size_t> users;  // that read such results: sums over rows or columns, and others
  // Of a user that is a sum: its reductions over the region's axes, with the axes' numbers.
  struct Reduced {
    size_t iterator = 0, axis = 0;
  };
  std::map<size_t, std::vector<Reduced>> reduced;
  // By statement and iterator: the number of the axis that it runs over, if it is one.
  std::map<size_t, std::vector<std::optional<size_t>>> axes;
};
// The region of the scores that a statement makes; nothing where they are needed elsewhere.
std::optional<ScoreRegion> score_region(const BoundProgram& program, const Target& target,
                                        const StatementUses& uses, size_t scores);

// Whether a statement of the region compares scores with what a user has picked among them, such as
// their maximum, or rounds a difference of both. Two kernels may add the terms of a score in
// different orders (rule 4.8): the maximum of one's scores is then equal to none of the other's.
bool compares_with_picked(const BoundProgram& program, const ScoreRegion& region);

}  // namespace tile::layout
