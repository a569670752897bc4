// Runs of ranks in a device's memory.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/engine/launch/device_run.h"
#include "runtime/ranks/box_rows.h"
#include "runtime/ranks/device/device_exchange.h"
#include "runtime/ranks/device/landings.h"
#include "runtime/ranks/device/side_segments.h"
#include "runtime/ranks/rank_store.h"

namespace tile {

// What runs of a rank's program on a device find ready.
class DevicePlan {
 public:
  // Compiles what combines received values, and uploads constants. Throws Failure.
  explicit DevicePlan(const RankExecutable& of);

  // What is done with a received part, in order: cells that nothing was received for yet are
  // copied, others combined with what is there.
  struct Step {
    size_t part = 0;
    BoxLevels levels;
    std::shared_ptr<const Code> combines;  // null: a copy
    std::optional<size_t> first;           // of two parts that are combined without what is there
  };
  const std::vector<Step>& steps(size_t exchange) const { return steps_[exchange]; }
  std::byte* constant(TensorId id) const { return constants_.at(id.index())->data(); }
  size_t kernels(size_t segment) const { return kernels_[segment]; }
  size_t bytes() const { return std::max<size_t>(side_workspace() + side_bytes_, 1); }
  // Where segments work, in memory of so many bytes: all of them, and one that runs beside others.
  size_t workspace() const { return arena_bytes_; }
  size_t side_workspace() const { return arena_bytes_ + workspace_bytes_; }
  size_t staging_bytes() const { return staging_bytes_; }

 private:
  std::vector<Step> steps_of(const Exchange& what, const RankMemory::Moved& moved) const;
  // Code for a step, or null for a copy.
  std::shared_ptr<const Code> combining(const Exchange& what, const Step& step, bool aligned) const;
  void upload(TensorId id);

  const RankExecutable& of_;
  std::vector<std::vector<Step>> steps_;                             // of each exchange
  std::map<size_t, std::shared_ptr<const DeviceMemory>> constants_;  // by the tensor's number
  std::vector<size_t> kernels_;                                      // of each segment, at most
  size_t arena_bytes_ = 0;      // a multiple of what follows it needs
  size_t workspace_bytes_ = 0;  // the most that a segment needs
  size_t side_bytes_ = 0;       // the most that one behind an exchange needs
  size_t staging_bytes_ = 0;    // the most that an exchange moves
};

// What a run has that is recorded: as much memory as the plan says, and all tensors in place.
struct RecordedRun {
  void* stream = nullptr;
  std::byte* memory = nullptr;
  RecordingLink* link = nullptr;
  const Landings* landings = nullptr;  // null: ranks fetch all parts

  bool pushes(size_t exchange) const {
    return landings != nullptr && landings->plan().is_pushed(exchange);
  }
};

class DeviceStore final : public RankStore {
 public:
  // Takes the memory that the run needs, so that nothing is allocated while exchanges are under
  // way.
  DeviceStore(const RankExecutable& of, const DevicePlan& plan, Transport& transport,
              std::shared_ptr<DeviceEnd> end, const RecordedRun& recorded = {});

  std::byte* arena() override { return arena_; }
  std::byte* place_of(TensorId id) override {
    return recorded_.landings != nullptr ? recorded_.landings->place_of(id) : nullptr;
  }
  std::byte* bring_in(const TensorView& input) override;
  std::byte* make_room(const TensorView& output) override;
  std::byte* constant(TensorId id) override { return plan_.constant(id); }
  void clear(std::byte* at, size_t bytes) override {
    sides_.join();
    end_->device().clear(at, bytes, recorded_.stream);
  }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override;
  void run_segment(size_t segment, std::vector<TensorView> inputs,
                   std::vector<TensorView> outputs) override;
  // One that travels runs on a stream of its own beside kernels, and is given to it once the device
  // has kernels to run meanwhile; others follow each other and them on one stream.
  void begin(size_t exchange, Moved what) override;
  void end(size_t exchange) override;
  void finish() override;
  void stop(const std::string&) noexcept override {}
  bool let_go() noexcept override;
  // The recording was given everything; returns its exchanges.
  std::vector<DeviceExchanges::Named> end_of_recording();

 private:
  DeviceSession& session() const { return *end_->engine().session(); }
  // Of an exchange over the link; recordings exchange parts only.
  std::optional<Collective> collective_of(size_t exchange) const {
    bool is_own = end_->link() != nullptr && recorded_.link == nullptr;
    return is_own ? of_.collective(exchange) : std::nullopt;
  }
  std::byte* temporary(size_t bytes);
  bool travels(size_t exchange) const {
    return end_->link() != nullptr && of_.program().exchanges[exchange].travels();
  }
  // An exchange, with the copies before it and behind it.
  struct Given {
    size_t exchange = 0;
    bool more = false;  // the next one is of its group
    std::vector<RowCopy> packs, unpacks;
    std::vector<LinkPart> sent, received;
    std::optional<LinkCollective> collective;
    bool is_nothing() const;
  };
  Given given(size_t exchange, const Moved& what) const;
  void add_pack(Given& given, const Moved& what, const Moved::Packed& part) const;
  void add_unpacks(Given& given, const Moved& what) const;
  void give(const Given& given);
  void give_waiting();
  void combine(size_t exchange, const Moved& what);

  const RankExecutable& of_;
  const DevicePlan& plan_;
  Transport& transport_;
  std::shared_ptr<DeviceEnd> end_;
  const RecordedRun recorded_;
  std::unique_ptr<DeviceMemory> memory_;  // the arena, then what segments work in
  std::byte* arena_ = nullptr;            // there, or in a recording's memory
  std::vector<std::unique_ptr<DeviceMemory>> temporaries_;
  struct Output {
    TensorView view;
    std::byte* data;
  };
  std::vector<Output> outputs_;  // that are not written where they are
  DeviceExchanges exchanges_;
  SideSegments sides_;
  std::vector<Given> waiting_;       // exchanges that travel, marked and not given yet
  std::map<size_t, size_t> beside_;  // exchanges that travel: their numbers of the link's
  std::map<size_t, Moved> begun_;    // exchanges that combine what they receive, until they end
};

}  // namespace tile
