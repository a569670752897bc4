// Exchanges between GPUs of one process within recordings (CUDA graphs). A graph has no events of
// others: that parts are there stands in words that streams wait for. A batch of them costs the
// host as much as a copy: those of exchanges in pieces are given as late as may be, many at once.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cuda/ranks/part_words.h"
#include "backends/cuda/ranks/peer_room.h"
#include "backends/cuda/ranks/row_kernel.h"
#include "backends/cuda/ranks/signals.h"
#include "backends/rank_device.h"

namespace tile::cuda {

class RecordedLink final : public RecordingLink {
 public:
  // For at most so many parts that others fetch. Throws Failure (run).
  RecordedLink(RecordingPeer peer, Session& session, size_t parts);
  ~RecordedLink() override;

  void land(std::span<const LinkPart> parts) override;
  std::optional<std::vector<std::byte*>> landings(std::span<const LinkPart> sent) override;
  std::unique_ptr<Recording> record(const std::function<void(void* stream)>& work) override;
  void* beside(size_t exchange) override;
  void join() override;
  void run(Recording& recording) override;

  void mark() override;
  size_t start(const LinkExchange& what, LinkManner how) override;
  size_t start(const LinkCollective& what, LinkLane lane) override;
  bool is_given() override;
  void await(size_t exchange) override;
  Progress progress() override;
  bool abort(double seconds) noexcept override;

 private:
  // The last run: the device is done with it; was given it, without an event behind it; or with
  // one; was not given it, as another rank has failed.
  enum class State : uint8_t { over, given, has_end, refused };
  // An exchange whose parts are not all taken yet.
  struct Open {
    CUstream stream = nullptr;
    bool is_piece = false;         // one that is beside, among others of its kind
    bool more = false;             // its group goes on
    bool offers = false;           // others wait for words that the stream was not given yet
    std::deque<LinkPart> awaited;  // parts of others that are fetched
    std::vector<RowCopy> unpacks;  // behind all parts
    SignalBatch words;             // what the stream is to do next, unless it is a piece
  };
  SignalBatch& words() { return open_->is_piece ? held_ : open_->words; }
  CUevent recorded(CUstream stream);
  void wait(CUstream stream, CUevent event);
  void give(SignalBatch& batch, CUstream stream);
  void give_held();
  void push(const LinkPart& part);
  void fetch(const PeerRoom::Part& from, const LinkPart& to);
  void end_of_given();
  bool is_over();
  bool is_quiet_within(double seconds) noexcept;

  RecordingPeer peer_;
  Session& session_;
  std::shared_ptr<const Device> device_;
  const Driver& driver_;
  std::optional<PartWords> words_;
  CUstream own_ = nullptr;     // that records
  CUstream beside_ = nullptr;  // that records what travels
  std::vector<CUevent> events_;
  std::deque<CUevent> marks_;
  std::vector<CUevent> ends_;  // of exchanges that were given; null: behind what is held
  SignalBatch held_;           // of exchanges in pieces, behind what `beside_` was given
  std::optional<Open> open_;
  struct LastRun {
    State state = State::over;
    CUevent end = nullptr;  // behind it
  } last_;
};

// What the ranks of a link say of their runs, where all of them reach each other's memory.
class PeerRecordings final : public LinkedPeers {
 public:
  PeerRecordings(std::shared_ptr<PeerRoom> room, Session& session, size_t rank, size_t ranks)
      : room_(std::move(room)), session_(session), rank_(rank), ranks_(ranks) {}

  void say(uint64_t what) override { room_->say(rank_, ++runs_, what); }
  std::optional<std::vector<uint64_t>> said() override { return room_->said(runs_, ranks_); }
  std::unique_ptr<RecordingLink> recording(size_t parts) override {
    if (!rows_) rows_ = std::make_shared<const RowKernel>(session_.device());
    return std::make_unique<RecordedLink>(RecordingPeer{room_, rank_, ranks_, runs_, rows_},
                                          session_, parts);
  }
  void refuse() override { room_->refuse(runs_); }

 private:
  std::shared_ptr<PeerRoom> room_;
  Session& session_;
  size_t rank_, ranks_;
  std::shared_ptr<const RowKernel> rows_;  // once something was recorded
  uint64_t runs_ = 0;                      // before which this rank said something
};

}  // namespace tile::cuda
