// The programs of all ranks while they are made: every rank gets the same tensors and exchanges, of
// its own shapes and boxes.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/distribute/partition.h"
#include "core/distribute/transfers.h"

namespace tile {

// A tensor of the program as it lies on the ranks.
struct StoredTensor {
  TensorId local;  // of every rank's program
  TensorLayout layout;
  std::vector<Box> boxes;  // in the tensor's own cells
};

class RankBuilder {
 public:
  RankBuilder(const Mesh& mesh, SourcePtr source, const Links& links);

  size_t ranks() const { return programs_.size(); }
  // A tensor of every rank with the extents of its box. The name is made unique.
  TensorId declare(const std::string& name, DType type, TensorRole role,
                   const std::vector<Box>& boxes);
  BoundTensor& edit(size_t rank, TensorId id) { return programs_[rank].program.tensors.edit(id); }
  void add(size_t rank, BoundStatement statement) {
    programs_[rank].program.statements.push_back(std::move(statement));
  }
  void add_input(TensorId id);
  void add_output(TensorId id);
  // Gives every rank's `result` what it needs of the source.
  void exchange(const StoredTensor& source, TensorId result,
                const std::vector<std::vector<NeedPart>>& needs,
                std::optional<Aggregation> reduction, Span span);

  std::vector<RankProgram>& programs() { return programs_; }
  std::vector<ExchangeSummary>& exchanges() { return exchanges_; }

 private:
  const Mesh& mesh_;
  Links links_;
  std::vector<RankProgram> programs_;
  std::vector<ExchangeSummary> exchanges_;
  std::set<std::string> names_;
};

// The needs of ranks that take these boxes as they are.
std::vector<std::vector<NeedPart>> needs_of_boxes(const std::vector<Box>& boxes);

}  // namespace tile
