// Code for one size alone, made in the background once that size has run often with code that
// serves a class of sizes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "runtime/engine/live_executable.h"

namespace tile {

// Counts the runs of an executable that shares code with other sizes. Thread safe.
class OwnCode {
 public:
  explicit OwnCode(uint32_t enough) : left_(enough) {}

  // One run more: the one that makes them enough begins.
  void ran() const noexcept {
    uint32_t left = left_.load(std::memory_order_relaxed);
    while (left != 0 && !left_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
    }
    if (left == 1) begin();
  }

 private:
  friend std::shared_ptr<LiveExecutable> shown(std::shared_ptr<const Executable> executable,
                                               std::weak_ptr<LoadedProgram> program);
  void begin() const noexcept;

  mutable std::atomic<uint32_t> left_;
  std::weak_ptr<LiveExecutable> live_;
};

// What a program and its callers share of the executable; where it shares code with other sizes its
// runs are counted, if the engine's options say so.
std::shared_ptr<LiveExecutable> shown(std::shared_ptr<const Executable> executable,
                                      std::weak_ptr<LoadedProgram> program = {});

}  // namespace tile
