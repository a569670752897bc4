// Statements of a program between products of rows and columns (scores) and what sums them up, and
// how each user of the scores can have scores of its own. Private to core/layout.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/ir/bound.h"
#include "core/target/target.h"

namespace tile::layout {

// Who makes and reads what, by statement.
class StatementUses {
 public:
  explicit StatementUses(const BoundProgram& program);
  std::optional<size_t> maker(TensorId id) const;
  const std::vector<size_t>& readers(TensorId id) const;
  // Read by other statements of the program only.
  bool is_inner(TensorId id) const { return !kept_.contains(id); }

 private:
  std::map<TensorId, size_t> makers_;
  std::map<TensorId, std::vector<size_t>> readers_;
  std::set<TensorId> kept_;
};

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

}  // namespace tile::layout
