// What the ways of one contraction take on the ranks that compute, and what they read.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/distribute/choice/candidates.h"
#include "core/distribute/choice/choice.h"
#include "core/distribute/choice/grid_traffic.h"
#include "core/distribute/needs.h"

namespace tile {

// The time of a point's arithmetic; that of matrix products is of the units that make them.
double point_ns(const BoundProgram& program, const Contraction& c, const Piece& piece,
                const RankRates& rates);

class WayCosts {
 public:
  WayCosts(const BoundProgram& program, const Contraction& c, const Mesh& mesh,
           const RankRates& rates);

  struct Computed {
    double ns = 0;          // of the slowest rank: its arithmetic, or its data once through memory
    double most_bytes = 0;  // that a rank touches
    std::vector<std::pair<TensorId, NeededCells>> windows;  // that are read, of tensors or views
  };
  Computed of(const Way& way) const;

 private:
  // Of pieces, what does not depend on ranks.
  struct PieceCost {
    std::unique_ptr<PieceImages> images;
    double point_ns = 0;
  };
  std::vector<IndexRange> ranges_of(const Piece& piece, const Way& way, size_t rank,
                                    bool& none) const;
  std::vector<std::vector<PieceNeeds>> needs_of_ranks(const Way& way,
                                                      const std::vector<Box>& boxes) const;
  void read(Computed& into, std::vector<double>& bytes,
            const std::vector<std::vector<PieceNeeds>>& needs) const;

  const BoundProgram& program_;
  const Contraction& c_;
  const Mesh& mesh_;
  const RankRates& rates_;
  std::vector<PieceCost> pieces_;
};

}  // namespace tile
