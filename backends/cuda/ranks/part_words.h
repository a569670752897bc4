// Words by which the recordings of several ranks tell each other that parts are there. They are
// asked of batches, which their streams are then given.
//
// Pushed parts: the sender writes to memory that the receiver keeps for them as long as its
// recording lives, and then how many it has pushed in all. It waits for nobody before: a run begins
// once all ranks have ended the one before. Fetched parts: a word of the sender's says that those
// of a group are there, and the receiver, which copies them, writes it back behind the last one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "backends/cuda/ranks/peer_room.h"
#include "backends/cuda/ranks/signals.h"
#include "backends/rank_device.h"

namespace tile::cuda {

class RowKernel;

// Who a recording is among those that exchange with it.
struct RecordingPeer {
  std::shared_ptr<PeerRoom> room;
  size_t rank = 0, ranks = 0;
  uint64_t run = 0;  // the number of the run that is recorded
  std::shared_ptr<const RowKernel> rows;
};

// Exchanges are counted from one, in their order.
class PartWords {
 public:
  // For at most so many parts that others fetch. The device's context is current. Throws Failure
  // (run).
  PartWords(const RecordingPeer& peer, Session& session, size_t parts);
  ~PartWords();
  PartWords(const PartWords&) = delete;
  PartWords& operator=(const PartWords&) = delete;

  // As those of RecordingLink.
  void land(std::span<const LinkPart> parts);
  std::optional<std::vector<std::byte*>> landings(std::span<const LinkPart> sent);

  // Behind what the stream was given the part is where the other rank wants it.
  void push(const LinkPart& part, SignalBatch& batch);
  // A part that others push is the exchange's, and is awaited by await_pushed().
  void expect(const LinkPart& part, size_t exchange);
  bool expects() const { return !expected_.empty(); }
  void await_pushed(SignalBatch& batch);

  // Behind what the stream was given others may copy the part.
  void offer(const LinkPart& part, SignalBatch& batch);
  // What the other rank has offered; none: nothing yet. Throws Failure where it cannot record.
  std::optional<PeerRoom::Part> take(const LinkPart& part);
  // Before and behind the copy; whether the stream is to be given the batch before.
  bool await_offered(const PeerRoom::Part& from, size_t exchange, SignalBatch& batch);
  void fetched(const PeerRoom::Part& from, SignalBatch& batch);
  // Others have copied all parts that were offered since the last group's end.
  void end_group(size_t exchange, SignalBatch& batch);

  // Of exchanges that the device has begun to wait for and is done with. Between two batches it
  // waits only where these differ.
  DeviceLink::Progress progress() const;
  // Before a run, and behind it, before anybody says that it begins the next one.
  void begin_run() const;
  void end_run() const;
  // Whatever streams wait for is there, or nobody waits for it any more.
  void let_go() const;

 private:
  enum Word : size_t { kBegun, kDone, kFirstCount };  // counts of parts from each rank are behind
  using Named = std::pair<std::shared_ptr<const Signals>, size_t>;
  void begin(size_t exchange, SignalBatch& batch);
  void end(SignalBatch& batch);

  const RecordingPeer peer_;
  std::shared_ptr<const Signals> signals_;
  size_t begun_ = 0, done_ = 0;  // that batches were asked to say
  // Of pushed parts, by the other rank: where they land, how many were pushed to it and come from
  // it, and those that no stream awaits yet.
  std::map<size_t, PeerRoom::Landings> landings_;
  std::map<size_t, uint32_t> pushed_, come_, expected_;
  size_t last_expected_ = 0;  // exchange
  // Of parts that are fetched: words that were taken for them, those of this group, by the
  // receiver, and those of other ranks that may be copied and that were copied.
  size_t parts_ = 0;
  std::map<size_t, size_t> group_;
  std::set<Named> open_, fetched_;
};

}  // namespace tile::cuda
