// What this machine can do at best, measured in the same run as the benchmarks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "backends/backend.h"

namespace tile::bench {

enum class Traffic : uint8_t { copy, read };

// f32 multiply-adds on registers alone: 10^9 operations (2 for each multiply-add) in a second, by
// `threads` threads at once with the widest vectors of this CPU.
double multiply_add_gflops(int threads);
std::string probe_name();  // "avx512", "avx2", "generic"
// 10^9 bytes in a second of plain_traffic at its best.
double memory_gbps(Traffic traffic, int threads, size_t bytes, int repeats);

// The machine's best at one thing, that can take turns with what is measured beside it: threads of
// its own, each of which does its part again and again.
class PlainWork {
 public:
  // `part(thread, count)` does the thread's part so many times; `amount`: operations or bytes of
  // all parts done once.
  PlainWork(int threads, double amount, std::function<void(int, int64_t)> part);
  ~PlainWork();
  PlainWork(const PlainWork&) = delete;
  PlainWork& operator=(const PlainWork&) = delete;
  double nanoseconds(int64_t count);  // from when all threads are awake
  double amount() const { return amount_; }

 private:
  void serve(int thread);
  std::function<void(int, int64_t)> part_;
  double amount_;
  int64_t count_ = 0;
  std::atomic<int> round_{0}, awake_{0}, started_{0}, busy_{0};
  std::atomic<bool> over_{false};
  std::vector<std::thread> others_;
};
// f32 multiply-adds on registers alone.
std::unique_ptr<PlainWork> plain_multiply_adds(int threads);
// `bytes` of memory, divided among the threads: read, or half read and half written (memcpy).
std::unique_ptr<PlainWork> plain_traffic(Traffic traffic, int threads, double bytes);

// The same of a device's own memory, copied by its driver.
double device_copy_gbps(DeviceSession& session);

// Probes on first use and remembers.
class Ceilings {
 public:
  // `quick`: of memory some rounds count, not many.
  explicit Ceilings(bool quick = false) : quick_(quick) {}
  double gflops(int threads);
  // The rate where the data of a benchmark of `bytes` lies: probed at the power of two above.
  double gbps(Traffic traffic, int threads, double bytes);

 private:
  bool quick_;
  std::map<int, double> gflops_;
  std::map<std::tuple<Traffic, int, size_t>, double> gbps_;
};

}  // namespace tile::bench
