// Words in page-locked memory by which streams of several GPUs wait for each other, and the host
// sees how far they are. Driver API, "Stream memory operations".
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cuda/driver/session.h"

namespace tile::cuda {

// All words are 0 at first. The host's side is thread safe.
class Signals {
 public:
  // The device's context is current. Throws Failure (run).
  Signals(Session& session, size_t count);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  size_t count() const { return count_; }
  uint32_t value(size_t word) const;
  void set(size_t word, uint32_t value) const;

 private:
  friend class SignalBatch;
  uint32_t* at(size_t word) const;

  std::shared_ptr<const Device> device_;
  size_t count_;
  void* memory_ = nullptr;
};

// What a stream does with words, in order, as one piece of work.
class SignalBatch {
 public:
  // What the stream was given before is seen by whoever sees the value. It takes the place of a
  // value of the same word that nothing is waited for behind.
  void write(const Signals& signals, size_t word, uint32_t value);
  void wait(const Signals& signals, size_t word, uint32_t value);      // until it is this one
  void wait_for(const Signals& signals, size_t word, uint32_t value);  // until it is so large
  bool is_empty() const { return all_.empty(); }
  // Gives the stream what was asked for, if anything. The device's context is current.
  void give(Session& session, CUstream stream);

 private:
  std::vector<CUstreamBatchMemOpParams> all_;
};

}  // namespace tile::cuda
