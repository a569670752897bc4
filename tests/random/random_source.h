// Random numbers that are the same on every host (SplitMix64).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tile::test {

class RandomSource {
 public:
  explicit RandomSource(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x1234567u) {}

  uint64_t bits() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  int64_t in(int64_t lo, int64_t hi) {  // both ends included
    return lo + static_cast<int64_t>(bits() % static_cast<uint64_t>(hi - lo + 1));
  }
  bool percent(int64_t p) { return in(0, 99) < p; }
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(in(0, static_cast<int64_t>(from.size()) - 1))];
  }

 private:
  uint64_t state_;
};

}  // namespace tile::test
