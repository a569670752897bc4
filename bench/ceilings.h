// What this machine can do at best, measured in the same run as the benchmarks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "backends/backend.h"

namespace tile::bench {

enum class Traffic : uint8_t { copy, read };

// f32 multiply-adds on registers alone: 10^9 operations (2 for each multiply-add) in a second, by
// `threads` threads at once with the widest vectors of this CPU.
double multiply_add_gflops(int threads);
std::string probe_name();  // "avx512", "avx2", "generic"
// 10^9 bytes in a second within `bytes` of memory, divided among the threads: read, or half read
// and half written (memcpy).
double memory_gbps(Traffic traffic, int threads, size_t bytes);

// A plain copy (memcpy) that can take turns with what is measured beside it: threads of its own and
// `bytes` of memory, half of it read and half written, divided among them.
class PlainCopy {
 public:
  PlainCopy(int threads, double bytes);
  ~PlainCopy();
  PlainCopy(const PlainCopy&) = delete;
  PlainCopy& operator=(const PlainCopy&) = delete;
  double nanoseconds(int64_t count);  // of so many copies
  double bytes() const { return bytes_; }

 private:
  struct Part;
  void serve(Part& part);
  std::vector<std::unique_ptr<Part>> parts_;  // the first one is the caller's
  std::atomic<int64_t> count_{0};
  std::atomic<int> round_{0}, busy_{0};
  std::atomic<bool> over_{false};
  double bytes_ = 0;
};

// The same of a device's own memory, copied by its driver.
double device_copy_gbps(DeviceSession& session);

// Probes on first use and remembers.
class Ceilings {
 public:
  double gflops(int threads);
  // The rate where the data of a benchmark of `bytes` lies: probed at the power of two above.
  double gbps(Traffic traffic, int threads, double bytes);

 private:
  std::map<int, double> gflops_;
  std::map<std::tuple<Traffic, int, size_t>, double> gbps_;
};

}  // namespace tile::bench
