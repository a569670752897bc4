// What this machine can do at best, measured in the same run as the benchmarks.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/backend.h"

namespace tile::bench {

// The bytes that are read and that are written.
struct Traffic {
  double read = 0, written = 0;

  static Traffic copy(double bytes) { return {bytes / 2, bytes / 2}; }
  double bytes() const { return read + written; }
};

// f32 multiply-adds on registers alone: 10^9 operations (2 for each multiply-add) in a second, by
// `threads` threads at once with the widest vectors of this CPU.
double multiply_add_gflops(int threads);
std::string probe_name();  // "avx512", "avx2", "generic"
// 10^9 bytes in a second of plain_traffic at its best.
double memory_gbps(const Traffic& traffic, int threads, int repeats);

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
  // From when all threads are awake. A thread that had to wait for a processor does not count with
  // that time; if one had to, they try again, some times.
  double nanoseconds(int64_t count);
  double amount() const { return amount_; }

 private:
  void serve(int thread);
  void do_part(int thread);
  double together();
  std::function<void(int, int64_t)> part_;
  double amount_;
  int64_t count_ = 0;
  std::vector<double> own_ns_;  // of the processor, for each thread
  std::atomic<int> round_{0}, awake_{0}, started_{0}, busy_{0};
  std::atomic<bool> over_{false};
  std::vector<std::thread> others_;
};
// f32 multiply-adds on registers alone.
std::unique_ptr<PlainWork> plain_multiply_adds(int threads);
// As many bytes of memory read and written, divided among the threads: what is written is copied
// from what is read, the rest is read alone, or filled. In the way that is fastest here and now.
std::unique_ptr<PlainWork> plain_traffic(const Traffic& traffic, int threads);

// The same of a device's own memory, copied by its driver.
double device_copy_gbps(DeviceSession& session);

// Probes on first use and remembers.
class Ceilings {
 public:
  // `quick`: of memory some rounds count, not many.
  explicit Ceilings(bool quick = false) : quick_(quick) {}
  double gflops(int threads);
  // The rate where the data of a benchmark of such traffic lies: probed at the power of two above
  // its bytes, of which a sixteenth more or less is written.
  double gbps(const Traffic& traffic, int threads);

 private:
  struct Place {
    int threads;
    size_t bytes;
    int written;  // in sixteenths
    auto operator<=>(const Place&) const = default;
  };
  bool quick_;
  std::map<int, double> gflops_;
  std::map<Place, double> gbps_;
};

}  // namespace tile::bench
