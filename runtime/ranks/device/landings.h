// Where parts of exchanges land that ranks push to each other in recordings: memory that a
// recording has for nothing else, so that others may write to it whenever they have what belongs
// there.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "runtime/ranks/rank_store.h"

namespace tile {

// Of one rank's program; the ranks' plans agree on what is pushed.
class LandingPlan {
 public:
  explicit LandingPlan(const RankExecutable& of);

  // Others are fetched: pieces of one source, of which all are there at once and each is to be
  // there as soon as may be. One word says the first, and the stream that fetches knows the second.
  bool is_pushed(size_t exchange) const { return exchanges_[exchange].is_pushed; }
  size_t bytes() const { return bytes_; }
  // Of all pushed parts, in order, where the memory is this.
  std::vector<LinkPart> received(std::byte* memory) const;
  std::vector<LinkPart> sent() const;  // without places

  struct Sent {
    size_t part = 0, rank = 0, bytes = 0;
  };
  struct Received {
    size_t part = 0, rank = 0, bytes = 0;
    size_t offset = 0;       // in the memory
    bool in_tensor = false;  // that is there
  };
  // Those of other ranks, in order.
  const std::vector<Sent>& sent(size_t exchange) const { return exchanges_[exchange].sent; }
  const std::vector<Received>& received(size_t exchange) const {
    return exchanges_[exchange].received;
  }
  // The offsets of tensors that are there.
  const std::map<TensorId, size_t>& tensors() const { return tensors_; }

 private:
  struct Of {
    bool is_pushed = false;
    std::vector<Sent> sent;
    std::vector<Received> received;
  };
  void find_tensors();
  void add_sent(size_t exchange);
  void add_received(size_t exchange);
  size_t taken(size_t bytes);

  const RankExecutable& of_;
  std::vector<Of> exchanges_;
  std::map<TensorId, size_t> tensors_;
  size_t bytes_ = 0;
};

// Of one recording.
class Landings {
 public:
  // `there`: where the parts land that the rank sends, as LandingPlan::sent().
  Landings(const LandingPlan& plan, std::byte* memory, std::vector<std::byte*> there);

  const LandingPlan& plan() const { return plan_; }
  // Where the tensor is; null: not here.
  std::byte* place_of(TensorId id) const;
  // Parts of a pushed exchange are packed and sent to where they land, and received there.
  void redirect(size_t exchange, RankStore::Moved& what) const;

 private:
  const LandingPlan& plan_;
  std::byte* memory_;
  std::vector<std::vector<std::byte*>> there_;  // of each exchange
};

}  // namespace tile
