// The iterations of a parallel loop, shared out among the threads that run it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tile::cpu {

// Each worker has an equal, contiguous share, the same in every launch, so that what a thread has
// in its caches is of use to it again. It takes its share from the front, in runs that shrink with
// what is left; a worker that has done its own helps the one that has most left, from the back.
// Thus a thread that wakes late, or whose processor others slow down, holds up a launch by one run
// at most. Which worker runs an iteration changes no result: iterations are independent. All
// functions may be called from any number of threads.
class WorkStealingRange {
 public:
  struct Run {
    int64_t begin = 0, end = 0;  // end > begin
  };
  // `extent` and `workers` of at least one; runs have at least `least` iterations, but where fewer
  // are left.
  WorkStealingRange(int64_t extent, int64_t workers, int64_t least);
  // The next run for worker 0 <= `worker` < workers; nullopt: nothing is left to be taken.
  std::optional<Run> take(int64_t worker);

 private:
  enum class Side { front, back };
  // Both ends of what is left, in units, in one word.
  struct alignas(64) Left {
    std::atomic<uint64_t> ends{0};
  };
  std::optional<Run> take_of(Left& left, Side side) const;
  Left* fullest();  // nullptr: nothing is left

  static constexpr size_t kMost = 32;  // shares; further workers only help
  std::array<Left, kMost> left_;
  size_t shares_;
  int64_t extent_, unit_, least_;  // `least_` in units of `unit_` iterations
};

}  // namespace tile::cpu
