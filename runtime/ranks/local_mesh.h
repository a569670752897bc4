// A program on a mesh whose ranks are threads of this process.
#pragma once

#include <memory>
#include <vector>

#include "core/distribute/partition.h"
#include "core/ir/scalar.h"
#include "runtime/ranks/local_ranks.h"
#include "runtime/ranks/rank_executable.h"

namespace tile {

class LocalMesh {
 public:
  // Compiles the programs of all ranks; equal kernels of one engine are compiled once. Throws
  // Failure.
  LocalMesh(std::shared_ptr<LocalRanks> ranks, const std::shared_ptr<const Program>& source,
            const BoundProgram& program, PartitionedProgram partitioned,
            const OverlapOptions& overlap = {});
  // With ranks of its own.
  LocalMesh(const std::shared_ptr<Engine>& engine, const std::shared_ptr<const Program>& source,
            const BoundProgram& program, PartitionedProgram partitioned,
            const OverlapOptions& overlap = {});

  const PartitionedProgram& partitioned() const { return p_; }
  // Runs on whole tensors: gives each rank its parts, and puts the outputs together. An input that
  // is kept as partial sums goes to the first rank along those axes, the others get zeros; partial
  // sums of an output are added up. Throws Failure.
  std::vector<HostTensor> run(const std::vector<HostTensor>& inputs) const;

 private:
  HostTensor part_of_input(const HostTensor& whole, size_t input, size_t rank) const;
  std::vector<HostTensor> put_together(const std::vector<std::vector<HostTensor>>& parts) const;

  std::shared_ptr<LocalRanks> ranks_;
  std::vector<TensorId> inputs_, outputs_;
  std::vector<BoundTensor> output_tensors_;
  PartitionedProgram p_;
  std::vector<std::unique_ptr<RankExecutable>> executables_;  // of each rank
};

}  // namespace tile
