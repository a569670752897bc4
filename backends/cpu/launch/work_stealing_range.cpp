#include "backends/cpu/launch/work_stealing_range.h"

#include <algorithm>

namespace tile::cpu {
namespace {

constexpr uint64_t kPart = 4;                 // of what is left, that a run takes
constexpr int64_t kUnits = int64_t{1} << 31;  // that a share's ends can tell apart

uint64_t ends_of(uint64_t begin, uint64_t end) { return begin << 32 | end; }
uint64_t begin_of(uint64_t ends) { return ends >> 32; }
uint64_t end_of(uint64_t ends) { return ends & 0xffffffff; }
uint64_t count_of(uint64_t ends) { return end_of(ends) - begin_of(ends); }

}  // namespace

WorkStealingRange::WorkStealingRange(int64_t extent, int64_t workers, int64_t least)
    : shares_(static_cast<size_t>(std::min<int64_t>(workers, kMost))),
      extent_(extent),
      unit_((extent - 1) / kUnits + 1),
      least_(std::clamp<int64_t>(least / unit_, 1, kUnits)) {
  int64_t units = (extent - 1) / unit_ + 1;
  auto shares = static_cast<int64_t>(shares_);
  int64_t size = units / shares, longer = units % shares;
  auto start = [&](int64_t s) { return static_cast<uint64_t>(s * size + std::min(s, longer)); };
  for (int64_t s = 0; s < shares; ++s) {
    left_[static_cast<size_t>(s)].ends.store(ends_of(start(s), start(s + 1)),
                                             std::memory_order_relaxed);
  }
}

std::optional<WorkStealingRange::Run> WorkStealingRange::take_of(Left& left, Side side) const {
  uint64_t ends = left.ends.load(std::memory_order_relaxed);
  while (count_of(ends) > 0) {
    uint64_t count = std::max(count_of(ends) / kPart, static_cast<uint64_t>(least_));
    count = std::min(count, count_of(ends));
    uint64_t begin = side == Side::front ? begin_of(ends) : end_of(ends) - count;
    uint64_t rest =
        side == Side::front ? ends_of(begin + count, end_of(ends)) : ends_of(begin_of(ends), begin);
    // What an iteration reads was written before the launch: the order of the words is all.
    if (!left.ends.compare_exchange_weak(ends, rest, std::memory_order_relaxed)) continue;
    auto first = static_cast<int64_t>(begin) * unit_;
    return Run{first, std::min(extent_, first + static_cast<int64_t>(count) * unit_)};
  }
  return std::nullopt;
}

WorkStealingRange::Left* WorkStealingRange::fullest() {
  Left* best = nullptr;
  uint64_t most = 0;
  for (size_t s = 0; s < shares_; ++s) {
    uint64_t count = count_of(left_[s].ends.load(std::memory_order_relaxed));
    if (count > most) best = &left_[s];
    most = std::max(most, count);
  }
  return best;
}

std::optional<WorkStealingRange::Run> WorkStealingRange::take(int64_t worker) {
  auto own = static_cast<size_t>(worker);
  if (own < shares_) {
    __builtin_prefetch(&left_[own], 1);  // the word is read to be changed
    if (std::optional<Run> run = take_of(left_[own], Side::front)) return run;
  }
  while (Left* other = fullest()) {
    if (std::optional<Run> run = take_of(*other, Side::back)) return run;
  }
  return std::nullopt;
}

}  // namespace tile::cpu
