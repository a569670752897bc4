// A mesh whose ranks are threads of this process, which share one engine.
#pragma once

#include <memory>
#include <vector>

#include "core/distribute/partition.h"
#include "core/ir/scalar.h"
#include "runtime/ranks/rank_executable.h"

namespace tile {

class LocalMesh {
 public:
  // Compiles the programs of all ranks; equal kernels are compiled once. Throws Failure.
  LocalMesh(const std::shared_ptr<Engine>& engine, const std::shared_ptr<const Program>& source,
            const BoundProgram& program, PartitionedProgram partitioned);

  const PartitionedProgram& partitioned() const { return p_; }
  // Runs on whole tensors: gives each rank its parts, and puts the outputs together. An input that
  // is kept as partial sums goes to the first rank along those axes, the others get zeros; partial
  // sums of an output are added up. Throws Failure.
  std::vector<HostTensor> run(const std::vector<HostTensor>& inputs) const;

 private:
  HostTensor part_of_input(const HostTensor& whole, size_t input, size_t rank) const;
  std::vector<HostTensor> put_together(const std::vector<std::vector<HostTensor>>& parts) const;

  std::vector<TensorId> inputs_, outputs_;
  std::vector<BoundTensor> output_tensors_;
  PartitionedProgram p_;
  std::vector<std::unique_ptr<RankExecutable>> ranks_;
};

}  // namespace tile
