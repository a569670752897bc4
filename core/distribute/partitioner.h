// The work of `partition`: statement by statement, what each rank computes, what it needs for that,
// and where the result goes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/distribute/partition.h"
#include "core/distribute/rank_builder.h"
#include "core/distribute/sums.h"
#include "core/distribute/windows.h"

namespace tile {

// How one contraction is divided, and what each rank then needs.
struct ContractionPlan {
  std::vector<ReductionCut> cuts;
  TensorLayout computed;
  std::vector<Box> boxes;                      // of the result, before any sum over ranks
  std::vector<std::vector<PieceNeeds>> needs;  // [rank][piece]
  Windows windows;

  bool divides_terms() const { return !cuts.empty(); }
  std::vector<size_t> axes() const { return axes_of(cuts); }  // over which terms are divided
};

class Partitioner {
 public:
  Partitioner(const BoundProgram& program, Distribution distribution,
              const PartitionOptions& options);
  PartitionedProgram run();

 private:
  // Where a rank reads an access: a tensor of its program, and the first cell that it holds.
  struct LocalTensor {
    TensorId id;
    std::vector<Box> boxes;
  };

  void declare_inputs();
  void declare_outputs();
  void statement(const BoundStatement& statement);
  void sort(const Sort& sort);
  void scatter(const Scatter& scatter);
  void summarize(TensorId result, const TensorLayout& computed,
                 const std::vector<ReductionCut>& cuts, Span span);

  // contractions.cpp
  void contraction(const Contraction& c);
  void compute_at_owners(const Contraction& c, const ContractionPlan& plan);
  ContractionPlan plan(const Contraction& c, std::vector<ReductionCut> cuts);
  ContractionPlan chosen_plan(const Contraction& c);
  std::vector<ReductionCut> possible_cuts(const Contraction& c, const TensorLayout& result);
  double bytes_of(const Contraction& c, const ContractionPlan& plan);
  // The ranks' contractions, which set `result`; `fill` of each rank's program.
  void emit(const Contraction& c, const ContractionPlan& plan, TensorId result,
            std::optional<TensorId> fill);
  void count_nodes(const Piece& piece, Span span);
  Piece local_piece(const Piece& piece, size_t rank, const ContractionPlan& plan,
                    const std::vector<size_t>& window_of_load,
                    const std::vector<LocalTensor>& windows, TensorId result) const;
  std::vector<IndexRange> ranges_of(const Piece& piece, const std::vector<ReductionCut>& cuts,
                                    size_t rank, bool& none) const;

  // reductions.cpp
  void sum_over_ranks(const Contraction& c, const ContractionPlan& plan);
  TensorLayout layout_of_sums(const Contraction& c, const ContractionPlan& plan) const;
  TensorId identities(const Contraction& c, const std::vector<Box>& boxes);
  // Where a cell has a term on any rank: 1, elsewhere 0; in the boxes.
  TensorId coverage(const Contraction& c, const ContractionPlan& plan, const TensorLayout& layout);
  // result = value, or where `covered` is 0 the default.
  void finish(const Contraction& c, TensorId value, std::optional<TensorId> covered,
              const std::vector<Box>& boxes, TensorId result);

  // stored.cpp
  const StoredTensor& stored(TensorId id);
  LocalTensor local(const Window& window, Span span);
  // Exactly these boxes of a tensor.
  TensorId exact(TensorId id, const std::vector<Box>& boxes, Span span);
  TensorId gathered(TensorId id, const std::vector<Box>& windows,
                    const std::vector<std::vector<Box>>& needed, Span span);
  StoredTensor& store(TensorId id, TensorId local, TensorLayout layout);
  // Declares the result of a statement under the tensor's own name.
  TensorId declare_result(TensorId id, const std::vector<Box>& boxes);
  // Where the statement that computes the tensor computes it, before its terms are divided.
  const TensorLayout& computed_layout(TensorId id) const;
  // Puts what was computed under one layout into the tensor's own; at once where they are the same.
  void store_computed(TensorId id, const TensorLayout& computed, TensorId local, Span span);

  const BoundTensor& at(TensorId id) const { return program_.tensors[id]; }

  const BoundProgram& program_;
  Distribution d_;
  PartitionOptions options_;
  RankBuilder ranks_;
  IdVector<TensorId, std::optional<StoredTensor>> stored_;
  // Windows that were gathered already.
  using WindowKey = std::pair<TensorId, std::string>;
  std::map<WindowKey, TensorId> gathered_;
  std::vector<StatementSummary> statements_;
  int64_t nodes_ = 0;            // of all ranks' bodies
  size_t exchanges_before_ = 0;  // of the statement that is divided now
};

}  // namespace tile
