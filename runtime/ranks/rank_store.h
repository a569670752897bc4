// Where the elements of one run of a rank's program are, and what is done to them between its
// segments.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/ranks/rank_executable.h"

namespace tile {

// Addresses are those of where the rank's engine runs. Functions throw Failure (run).
class RankStore {
 public:
  virtual ~RankStore() = default;
  virtual std::byte* arena() = 0;
  // Where the run has a tensor that is planned in the arena; null: there.
  virtual std::byte* place_of(TensorId) { return nullptr; }
  // Where the run finds an input, and where it puts an output.
  virtual std::byte* bring_in(const TensorView& input) = 0;
  virtual std::byte* make_room(const TensorView& output) = 0;
  virtual std::byte* constant(TensorId id) = 0;
  virtual void clear(std::byte* at, size_t bytes) = 0;
  virtual void copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  // `inputs` and `outputs` are dense, with addresses of this store.
  virtual void run_segment(size_t segment, std::vector<TensorView> inputs,
                           std::vector<TensorView> outputs) = 0;
  // Where an exchange finds its source and its result, and what it moves.
  struct Moved {
    const std::byte* source = nullptr;
    std::byte* result = nullptr;
    std::vector<LinkPart> sent, received;  // to other ranks and from them
    // Parts of these numbers that are to be made of the source.
    struct Packed {
      size_t part = 0;
      std::byte* data = nullptr;
    };
    std::vector<Packed> packed;
    // All parts that are received, the rank's own too; null for one that is where it belongs.
    std::vector<const std::byte*> arrived;
  };
  // The parts are sent, and the result is there, once end() has returned; what runs meanwhile
  // neither writes the source nor touches the result. Exchanges end in the order in which they
  // begin.
  virtual void begin(size_t exchange, Moved what) = 0;
  virtual void end(size_t exchange) = 0;
  // The outputs are there once this returns.
  virtual void finish() = 0;
  // The run failed, and why. Exchanges that have begun are given up.
  virtual void stop(const std::string& why) noexcept = 0;
  // The run failed and is stopped. False: something may still write to the store's memory, which
  // must stay.
  virtual bool let_go() noexcept = 0;
};

}  // namespace tile
