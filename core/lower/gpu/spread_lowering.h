// Reductions spread over the threads of a GPU's block, and over launches: what the forms of GPUs
// share.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/kernel/forms/gpu_forms.h"
#include "core/lower/tile/tile_parts.h"

namespace tile::lowering {

struct Spread {
  int64_t count = 1, terms = 1;          // cells, and values reduced into each
  int64_t parallel_dims = 1, lanes = 1;  // threads of a block
  int64_t cells = 1, neighbours = 1;     // that a thread takes at once
  int64_t split = 1;
  bool parallel_dims_fastest = false;
  std::vector<nest::BufferId> shared;
  std::optional<Expr> block;  // of a cluster: the first index of `shared`
};

class SpreadLowering : PieceForm {
 public:
  explicit SpreadLowering(TileParts& parts) : PieceForm(parts) {}

  nest::Block gpu_reduction(const GpuReduction& g);

  // Of the part of the reduction, the group of cells and the lane.
  using SpreadPart = std::function<nest::Block(const Expr&, const Expr&, const Expr&)>;
  // One launch of blocks with (cells of the parallel dimensions) * lanes threads. `reduce` makes
  // what one thread adds to its accumulators for a group of cells, `finish` what lane 0 does with
  // the sums.
  nest::Block spread_launch(Spread p, const std::string& name, const SpreadPart& reduce,
                            const SpreadPart& finish) const;
  // The lanes' accumulators go through shared memory.
  nest::Block combine_lanes(const Spread& p, const Expr& parallel_dim, const Expr& lane) const;
  // Each part's results, [part][cell], in the accumulator's type.
  std::vector<nest::BufferId> split_buffers(int64_t split, int64_t cells, nest::Block& out) const;
  // The second launch of a split reduction.
  nest::Block combine_parts(const gpu::FlatIndex& parallel_dims,
                            const std::vector<nest::BufferId>& parts, int64_t split);
  // In a second launch, whatever the first launch's threads held.
  void cells_of_a_thread(int64_t cells);

 private:
  nest::Block reduced_terms(const GpuReduction& g, const Spread& p, const Expr& part,
                            const Expr& group, const Expr& lane) const;
  nest::Block combined_neighbours(const Spread& p) const;
  nest::Block thread_body(const Spread& p, const std::vector<Expr>& at, const SpreadPart& reduce,
                          const SpreadPart& finish) const;
  nest::Block spread_terms(const Spread& p, const Expr& part, const Expr& lane,
                           const std::function<nest::Block(const Expr&)>& term) const;
  nest::Block spread_results(const gpu::FlatIndex& parallel_dims, const Expr& group,
                             int64_t cells) const;
  nest::Block store_parts(const std::vector<nest::BufferId>& parts, const Expr& part,
                          const Expr& group, int64_t cells) const;
};

// The iterators of `index` at position quotient * vector + lane.
nest::Block decoded(const PieceContext& c, const gpu::FlatIndex& index, const State& s,
                    const Expr& quotient, int64_t vector, const Expr& lane,
                    const std::string& prefix, const Leaf& inside);

}  // namespace tile::lowering
