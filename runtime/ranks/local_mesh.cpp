#include "runtime/ranks/local_mesh.h"

#include <exception>
#include <system_error>
#include <thread>

#include "runtime/ranks/exchange_names.h"
#include "runtime/ranks/rank_mesh.h"
#include "runtime/transport/local_transport.h"

namespace tile {
LocalMesh::LocalMesh(const std::shared_ptr<Engine>& engine,
                     const std::shared_ptr<const Program>& source, const BoundProgram& program,
                     PartitionedProgram partitioned)
    : inputs_(program.inputs), outputs_(program.outputs), p_(std::move(partitioned)) {
  for (TensorId id : outputs_) output_tensors_.push_back(program.tensors[id]);
  std::vector<std::string> names = exchange_names(p_, *source->source);
  for (const RankProgram& rank : p_.ranks) {
    ranks_.push_back(std::make_unique<RankExecutable>(engine, source, rank, names));
  }
}

HostTensor LocalMesh::part_of_input(const HostTensor& whole, size_t input, size_t rank) const {
  const std::vector<size_t>& partial = p_.distribution.layouts[inputs_[input]].partial;
  return part_of_whole({whole.type, whole.shape, p_.inputs[input], partial}, p_.distribution.mesh,
                       rank, whole);
}

std::vector<HostTensor> LocalMesh::run(const std::vector<HostTensor>& inputs) const {
  size_t ranks = ranks_.size();
  std::vector<std::unique_ptr<Transport>> ends = local_transports(ranks, kRankTimeoutSeconds);
  std::vector<std::vector<HostTensor>> outputs(ranks);
  std::vector<std::exception_ptr> errors(ranks);
  auto work = [&](size_t r) {
    try {
      std::vector<HostTensor> given;
      for (size_t i = 0; i < inputs.size(); ++i) given.push_back(part_of_input(inputs[i], i, r));
      const BoundProgram& program = ranks_[r]->program().program;
      for (TensorId id : program.outputs) {
        outputs[r].emplace_back(program.tensors[id].type, program.tensors[id].shape);
      }
      ranks_[r]->run(*ends[r], views_of(given), views_of(outputs[r]));
    } catch (...) {
      errors[r] = std::current_exception();
      ends[r]->abort("");
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  try {
    for (size_t r = 0; r < ranks; ++r) threads.emplace_back(work, r);
  } catch (const std::system_error&) {  // those that are there wait for the others' parts
    ends[threads.size()]->abort("it got no thread");
  }
  for (std::thread& thread : threads) thread.join();
  if (threads.size() < ranks) {
    fail(Stage::run, "memory", {},
         "no thread for rank " + std::to_string(threads.size()) + " of " + std::to_string(ranks),
         "a smaller mesh, or a larger limit of processes (ulimit -u), does");
  }
  // Others fail because one did: that one's error is told.
  std::exception_ptr first;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    if (!first) first = error;
    try {
      std::rethrow_exception(error);
    } catch (const Failure& failure) {
      if (failure.diagnostic().code != "rank") first = error;
    } catch (...) {
      first = error;
    }
  }
  if (first) std::rethrow_exception(first);
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
