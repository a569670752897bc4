// One rank's program, compiled: its segments run on an engine, its exchanges on a transport.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/distribute/segments.h"
#include "core/ir/ranks/rank_program.h"
#include "core/ir/scalar.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/host_memory.h"
#include "runtime/ranks/rank_memory.h"
#include "runtime/transport/transport.h"

namespace tile {

// Dense views of all elements. What they see is the tensors'.
std::vector<TensorView> views_of(std::vector<HostTensor>& tensors);

class RankExecutable {
 public:
  // `names` of the exchanges, for errors. Throws Failure.
  RankExecutable(const std::shared_ptr<Engine>& engine,
                 const std::shared_ptr<const Program>& source, RankProgram rank,
                 std::vector<std::string> names);

  const RankProgram& program() const { return rank_; }
  const std::shared_ptr<const Program>& source() const { return source_; }
  const std::shared_ptr<Engine>& engine() const { return engine_; }
  // `inputs` and `outputs` are this rank's parts, dense, in the order of its program. Thread safe
  // for distinct outputs and transports. Throws Failure; the transport is then dead.
  void run(Transport& transport, const std::vector<TensorView>& inputs,
           const std::vector<TensorView>& outputs) const;

 private:
  class Run;
  std::unique_ptr<HostMemory> arena() const;

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<const Program> source_;
  RankProgram rank_;
  std::vector<Segment> segments_;
  std::vector<std::shared_ptr<const Executable>> executables_;  // null where a segment is empty
  std::vector<std::string> names_;
  RankMemory memory_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<HostMemory> spare_;  // the arena of a run that is over
};

}  // namespace tile
