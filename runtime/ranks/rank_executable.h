// One rank's program, compiled: its segments run on an engine, its exchanges on a transport.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/distribute/overlap/overlap.h"
#include "core/distribute/segments.h"
#include "core/ir/ranks/rank_program.h"
#include "core/ir/scalar.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/host_memory.h"
#include "runtime/ranks/box_rows.h"
#include "runtime/ranks/collectives.h"
#include "runtime/ranks/device/device_end.h"
#include "runtime/ranks/rank_memory.h"
#include "runtime/transport/transport.h"

namespace tile {

// Dense views of all elements. What they see is the tensors'.
std::vector<TensorView> views_of(std::vector<HostTensor>& tensors);

// What is done where ranks run on the engine: a device whose parts go through the host's memory
// waits for each exchange, so that nothing is gained. `linked`: parts go from device to device.
Overlap overlap_on(const Engine& engine, Overlap wanted, bool linked);

class DevicePlan;
class RankReplays;
class RankStore;

class RankExecutable {
 public:
  // `number` of the rank; `names` of the exchanges, for errors; `collectives` are those of all
  // ranks' programs, or none. Throws Failure.
  RankExecutable(const std::shared_ptr<Engine>& engine,
                 const std::shared_ptr<const Program>& source, RankProgram rank, size_t number,
                 std::vector<std::string> names,
                 std::vector<std::optional<Collective>> collectives = {});
  ~RankExecutable();
  RankExecutable(const RankExecutable&) = delete;
  RankExecutable& operator=(const RankExecutable&) = delete;

  const RankProgram& program() const { return rank_; }
  const std::shared_ptr<const Program>& source() const { return source_; }
  const std::shared_ptr<Engine>& engine() const { return engine_; }
  const SegmentedProgram& segmented() const { return segmented_; }
  // Of the segments.
  const std::vector<std::shared_ptr<const Executable>>& executables() const { return executables_; }
  const std::vector<std::string>& names() const { return names_; }
  const RankMemory& memory() const { return memory_; }
  size_t number() const { return number_; }  // of the rank
  // The tensor that holds another one's elements, and where in it they begin, in bytes.
  struct PlaceOf {
    TensorId tensor;
    size_t offset = 0;
  };
  PlaceOf place_of(TensorId id) const;
  // What an exchange copies from its source (a "part" of these levels) to its result.
  const std::vector<BoxLevels>& own_copies(size_t exchange) const { return own_copies_[exchange]; }
  std::optional<Collective> collective(size_t exchange) const {
    return collectives_.empty() ? std::nullopt : collectives_[exchange];
  }
  // `inputs` and `outputs` are this rank's parts, dense, in the order of its program, in the host's
  // memory or, where the engine has a device, in that. `device`: null where it has none. Thread
  // safe for distinct outputs, transports and devices. Throws Failure; the transport is then dead,
  // and so is the device's link.
  // `given_ns`, where it is not null: the nanoseconds after which all work was given to the device.
  void run(Transport& transport, const std::shared_ptr<DeviceEnd>& device,
           const std::vector<TensorView>& inputs, const std::vector<TensorView>& outputs,
           double* given_ns = nullptr) const;

 private:
  class Run;
  // A tensor that is a part of another one.
  struct PlacedPart {
    TensorId whole;
    size_t offset = 0;             // of its first cell there, in bytes
    std::vector<int64_t> strides;  // empty: its cells stand side by side
  };
  void place_parts();
  void plan_own_copies();
  std::unique_ptr<HostMemory> arena() const;
  std::vector<int64_t> strides_of(TensorId id) const {
    return placed_[id] ? placed_[id]->strides : std::vector<int64_t>();
  }

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<const Program> source_;
  RankProgram rank_;
  size_t number_;
  SegmentedProgram segmented_;
  std::vector<std::shared_ptr<const Executable>> executables_;  // of the segments
  std::vector<std::string> names_;
  std::vector<std::optional<Collective>> collectives_;
  RankMemory memory_;
  IdVector<TensorId, std::optional<PlacedPart>> placed_;
  std::vector<std::vector<BoxLevels>> own_copies_;  // of each exchange
  std::unique_ptr<const DevicePlan> plan_;          // null without a device
  std::unique_ptr<RankReplays> replays_;            // with it
  mutable std::mutex mutex_;
  mutable std::unique_ptr<HostMemory> spare_;  // the arena of a run that is over
};

}  // namespace tile
