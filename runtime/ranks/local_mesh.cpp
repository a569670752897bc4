#include "runtime/ranks/local_mesh.h"

#include "core/distribute/overlap/pieces/in_pieces.h"
#include "runtime/ranks/exchange_names.h"
#include "runtime/ranks/rank_mesh.h"

namespace tile {

LocalMesh::LocalMesh(std::shared_ptr<LocalRanks> ranks,
                     const std::shared_ptr<const Program>& source, const BoundProgram& program,
                     PartitionedProgram partitioned, const OverlapOptions& overlap)
    : ranks_(std::move(ranks)),
      inputs_(program.inputs),
      outputs_(program.outputs),
      p_(std::move(partitioned)) {
  for (TensorId id : outputs_) output_tensors_.push_back(program.tensors[id]);
  OverlapOptions common = overlap;
  common.on_device = ranks_->is_linked();
  common.mode = overlap_on(*ranks_->engine(0), overlap.mode, common.on_device);
  p_ = in_pieces(std::move(p_), common).parts;
  std::vector<std::string> names = exchange_names(p_, *source->source);
  std::vector<std::optional<Collective>> collectives = collectives_of(p_.ranks);
  for (size_t r = 0; r < p_.ranks.size(); ++r) {
    OverlappedProgram own = overlapped(p_, r, common);
    executables_.push_back(std::make_unique<RankExecutable>(
        ranks_->engine(r), source, std::move(own.program), r, names, collectives));
  }
}
LocalMesh::LocalMesh(const std::shared_ptr<Engine>& engine,
                     const std::shared_ptr<const Program>& source, const BoundProgram& program,
                     PartitionedProgram partitioned, const OverlapOptions& overlap)
    : LocalMesh{std::make_shared<LocalRanks>(engine, partitioned.ranks.size()), source, program,
                std::move(partitioned), overlap} {}  // braces: in this order

HostTensor LocalMesh::part_of_input(const HostTensor& whole, size_t input, size_t rank) const {
  const std::vector<size_t>& partial = p_.distribution.layouts[inputs_[input]].partial;
  return part_of_whole({whole.type, whole.shape, p_.inputs[input], partial}, p_.distribution.mesh,
                       rank, whole);
}

std::vector<HostTensor> LocalMesh::run(const std::vector<HostTensor>& inputs) const {
  std::vector<std::vector<HostTensor>> outputs(executables_.size());
  ranks_->run([&](size_t r, Transport& transport, const std::shared_ptr<DeviceEnd>& device) {
    std::vector<HostTensor> given;
    for (size_t i = 0; i < inputs.size(); ++i) given.push_back(part_of_input(inputs[i], i, r));
    const BoundProgram& program = executables_[r]->program().program;
    for (TensorId id : program.outputs) {
      outputs[r].emplace_back(program.tensors[id].type, program.tensors[id].shape);
    }
    executables_[r]->run(transport, device, views_of(given), views_of(outputs[r]));
  });
  return put_together(outputs);
}

std::vector<HostTensor> LocalMesh::put_together(
    const std::vector<std::vector<HostTensor>>& parts) const {
  std::vector<HostTensor> whole;
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const BoundTensor& t = output_tensors_[o];
    const std::vector<size_t>& partial = p_.distribution.layouts[outputs_[o]].partial;
    std::vector<const std::byte*> bytes;
    for (const std::vector<HostTensor>& rank : parts) bytes.push_back(rank[o].bytes.data());
    whole.push_back(
        tile::put_together({t.type, t.shape, p_.outputs[o], partial}, p_.distribution.mesh, bytes));
  }
  return whole;
}

}  // namespace tile
