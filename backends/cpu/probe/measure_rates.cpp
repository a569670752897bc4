#include "backends/cpu/probe/measure_rates.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <ctime>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "backends/cpu/probe/probe_loops.h"
#include "backends/cpu/probe/probe_tiles.h"

namespace tile::cpu {
namespace {

constexpr int kTrials = 20;
constexpr double kPartNs = 25e6;    // of one measurement, whatever its trials take…
constexpr double kLongestNs = 1e8;  // …unless others disturbed all of them
constexpr double kUndisturbed = 0.9;
constexpr size_t kMultiple = 1024;
constexpr int64_t kLargestRead = int64_t{96} << 20;  // bytes

ProbeClocks thread_clocks() {
  auto nanoseconds = [](clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
  };
  return {[=] { return nanoseconds(CLOCK_MONOTONIC); },
          [=] { return nanoseconds(CLOCK_THREAD_CPUTIME_ID); }};
}

double least_ns(const std::function<void()>& call) { return undisturbed_ns(call, thread_clocks()); }

// Each thread's best rate while all run, added up. Throws what a thread threw, or what making one
// did.
double together(int threads, const std::function<double(size_t thread)>& rate) {
  std::vector<double> rates(static_cast<size_t>(threads));
  std::vector<std::exception_ptr> faults(rates.size());
  std::atomic<int> ready{0};
  std::atomic<bool> given_up{false};  // some are missing, for whom the others would wait
  auto body = [&](size_t thread) {
    ++ready;
    while (ready < threads && !given_up) std::this_thread::yield();
    try {
      if (!given_up) rates[thread] = rate(thread);
    } catch (...) {
      faults[thread] = std::current_exception();
    }
  };
  std::vector<std::jthread> others;
  try {
    for (size_t i = 1; i < rates.size(); ++i) others.emplace_back(body, i);
  } catch (...) {
    given_up = true;
    throw;
  }
  body(0);
  others.clear();
  for (const std::exception_ptr& fault : faults) {
    if (fault) std::rethrow_exception(fault);
  }
  double sum = 0;
  for (double r : rates) sum += r;
  return sum;
}

class Buffer {
 public:
  explicit Buffer(size_t bytes)
      : data_(::operator new(bytes, std::align_val_t{64})), bytes_(bytes) {
    std::memset(data_, 1, bytes);
  }
  ~Buffer() { ::operator delete(data_, std::align_val_t{64}); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  // Bytes per nanosecond of reading the first `bytes`, again and again.
  double rate(size_t bytes) const {
    bytes = std::min(bytes, bytes_) / kMultiple * kMultiple;
    constexpr size_t kTogether = 256 << 10;  // so that the clock does not count
    size_t times = std::max<size_t>(1, kTogether / bytes);
    double ns = least_ns([&] {
      for (size_t i = 0; i < times; ++i) {
        probe_loops().read(data_, bytes);
        asm volatile("" : : : "memory");  // no call is dropped
      }
    });
    return static_cast<double>(bytes * times) / ns;
  }

 private:
  void* data_;
  size_t bytes_;
};

double fma_rate(int bits) {
  MultiplyAdd loop = multiply_add_of(bits);
  if (loop.run == nullptr) return 0;
  constexpr int64_t kCalls = 16;
  return loop.multiply_adds_per_call * kCalls / least_ns([&] { loop.run(kCalls); });
}

// Multiply-adds of whole tiles, whose rows have `groups` groups of neighbours.
double tile_rate(const AmxTiles& tiles, void (*run)(int64_t), int64_t neighbours) {
  constexpr int64_t kCalls = 8;
  auto each = static_cast<double>(tiles.rows * tiles.columns() * tiles.groups() * neighbours);
  return each * kCalls * kProductsPerCall / least_ns([&] { run(kCalls); });
}

// Two digits.
double rounded(double rate) {
  if (rate <= 0 || !std::isfinite(rate)) return 0;
  double unit = std::pow(10, std::floor(std::log10(rate)) - 1);
  return std::round(rate / unit) * unit;
}

size_t bytes_of(int64_t n) { return static_cast<size_t>(n); }

// The largest of growing sizes that is still read clearly faster than memory.
int64_t effective_bytes(const Buffer& buffer, const Target& host, double l3, double dram) {
  int64_t found = 0;
  if (l3 <= 0 || dram <= 0) return 0;  // not measured
  for (int64_t bytes = 2 * host.l2_bytes; bytes <= std::min(host.l3_bytes, kLargestRead);
       bytes *= 2) {
    if (buffer.rate(bytes_of(bytes)) < std::sqrt(l3 * dram)) break;
    found = bytes;
  }
  return found;
}

void measure_memory(const Target& host, MachineRates& r) {
  int64_t far = std::clamp<int64_t>(2 * host.l3_bytes, 4 * host.l2_bytes, kLargestRead);
  Buffer buffer(bytes_of(far));
  r.l1_bytes_per_ns = buffer.rate(bytes_of(host.l1_bytes / 2));
  r.l2_bytes_per_ns = buffer.rate(bytes_of(host.l2_bytes / 2));
  r.l3_bytes_per_ns = buffer.rate(bytes_of(2 * host.l2_bytes));
  r.dram_bytes_per_ns = buffer.rate(bytes_of(far));
  r.l3_bytes = effective_bytes(buffer, host, r.l3_bytes_per_ns, r.dram_bytes_per_ns);
  if (host.threads < 2) return;
  int64_t near = 2 * host.l2_bytes;
  std::vector<std::unique_ptr<Buffer>> own(static_cast<size_t>(host.threads));
  auto read = [&](int64_t bytes) {
    return together(host.threads, [&](size_t thread) {
      std::unique_ptr<Buffer>& mine = own[thread];
      if (!mine) mine = std::make_unique<Buffer>(bytes_of(std::max(near, far / host.threads)));
      return mine->rate(bytes_of(bytes));
    });
  };
  r.all_l2_bytes_per_ns = read(host.l2_bytes / 2);
  r.all_l3_bytes_per_ns = read(near);
  r.all_dram_bytes_per_ns = read(far / host.threads);
}

}  // namespace

double undisturbed_ns(const std::function<void()>& call, const ProbeClocks& clocks) {
  double least = std::numeric_limits<double>::infinity();
  call();
  double begin = clocks.wall();
  for (int i = 0;; ++i) {
    double working = clocks.processor(), start = clocks.wall();
    call();
    double end = clocks.wall(), taken = end - start;
    bool alone = clocks.processor() - working >= kUndisturbed * taken;
    if (alone) least = std::min(least, taken);
    bool enough = i + 1 >= kTrials || end - begin >= kPartNs;
    if (enough && std::isfinite(least)) return least;
    if (end - begin >= kLongestNs) return least;
  }
}

MachineRates measure_rates(const Target& host) {
  MachineRates r;
  for (int bits : {128, 256, 512}) {
    double rate = fma_rate(bits);
    if (rate > 0) r.fma_per_ns[bits] = rounded(rate);
  }
  const AmxTiles& tiles = host.tiles;
  if (tiles.bf16_per_ns > 0) r.tile_bf16_per_ns = tile_rate(tiles, multiply_tiles_bf16, 2);
  if (tiles.i8_per_ns > 0) r.tile_i8_per_ns = tile_rate(tiles, multiply_tiles_i8, 4);
  r.threads = host.threads;
  int widest = r.fma_per_ns.empty() ? 128 : r.fma_per_ns.rbegin()->first;
  auto all_fma = [&] { return together(host.threads, [&](size_t) { return fma_rate(widest); }); };
  // Before and after the rest: two virtual processors may share a core for some milliseconds.
  double before = all_fma();
  measure_memory(host, r);
  r.all_fma_per_ns = std::max(before, all_fma());
  for (double* rate :
       {&r.tile_bf16_per_ns, &r.tile_i8_per_ns, &r.l1_bytes_per_ns, &r.l2_bytes_per_ns,
        &r.l3_bytes_per_ns, &r.dram_bytes_per_ns, &r.all_fma_per_ns, &r.all_l2_bytes_per_ns,
        &r.all_l3_bytes_per_ns, &r.all_dram_bytes_per_ns}) {
    *rate = rounded(*rate);
  }
  return r;
}

}  // namespace tile::cpu
