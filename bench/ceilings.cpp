#include "bench/ceilings.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "backends/cpu/probe_loops.h"
#include "bench/tensor.h"

namespace tile::bench {
namespace {

using Clock = std::chrono::steady_clock;
// Many short probes: on a machine that others use, some of them are left alone.
constexpr int kRepeats = 60;
constexpr double kProbeSeconds = 0.002;

// Runs `work(thread)` on every thread at once; seconds from the common start to the last end.
double together(int threads, const std::function<void(int)>& work) {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  auto body = [&](int thread) {
    ++ready;
    while (!go) std::this_thread::yield();
    work(thread);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(body, i);
  while (ready < threads - 1) std::this_thread::yield();
  auto start = Clock::now();
  go = true;
  work(0);
  for (std::thread& t : others) t.join();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The best of several timings of `calls(thread, count)`, with a count that takes long enough to be
// timed well.
double best_rate(int threads, double units_per_call,
                 const std::function<void(int, int64_t)>& calls) {
  int64_t count = 1;
  while (together(threads, [&](int t) { calls(t, count); }) < kProbeSeconds) count *= 2;
  double seconds = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepeats; ++i) {
    seconds = std::min(seconds, together(threads, [&](int t) { calls(t, count); }));
  }
  return units_per_call * static_cast<double>(count) * threads / seconds;
}

// The least seconds of one call out of many.
double least_seconds(const std::function<void()>& call) {
  double seconds = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepeats; ++i) {
    auto start = Clock::now();
    call();
    seconds = std::min(seconds, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return seconds;
}

}  // namespace

std::string probe_name() { return cpu::probe_loops().name; }

// Threads share no arithmetic units, but rarely have all their cores to themselves at one moment
// of a busy machine: each one's best counts, while all run.
double multiply_add_gflops(int threads) {
  constexpr int64_t kCalls = 100;
  const cpu::ProbeLoops& loops = cpu::probe_loops();
  std::vector<double> seconds(static_cast<size_t>(threads));
  together(threads, [&](int thread) {
    seconds[static_cast<size_t>(thread)] = least_seconds([&] { loops.multiply_add(kCalls); });
  });
  double rate = 0;
  for (double s : seconds) rate += loops.operations_per_call * kCalls / s / 1e9;
  return rate;
}

double memory_gbps(Traffic traffic, int threads, size_t bytes) {
  constexpr size_t kMultiple = 1024;  // what the reading loop takes
  size_t buffers = traffic == Traffic::copy ? 2 : 1;
  size_t size = std::max(bytes / buffers / static_cast<size_t>(threads), kMultiple);
  size = size / kMultiple * kMultiple;
  auto elements = static_cast<int64_t>(size);
  std::vector<Tensor> from, to;
  for (int i = 0; i < threads; ++i) {
    from.emplace_back(InputType{DType::u8, {elements}});
    if (traffic == Traffic::copy) to.emplace_back(InputType{DType::u8, {elements}});
  }
  auto calls = [&](int thread, int64_t count) {
    auto t = static_cast<size_t>(thread);
    for (int64_t i = 0; i < count; ++i) {
      if (traffic == Traffic::read) {
        cpu::probe_loops().read(from[t].data(), size);
      } else {
        std::memcpy(to[t].data(), from[t].data(), size);
      }
      // The compiler must not drop or merge calls.
      asm volatile("" : : : "memory");
    }
  };
  return best_rate(threads, static_cast<double>(buffers * size), calls) / 1e9;
}

struct PlainCopy::Part {
  explicit Part(int64_t bytes)
      : from(InputType{DType::u8, {bytes}}), to(InputType{DType::u8, {bytes}}) {}
  void copy(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to.data(), from.data(), from.bytes());
      asm volatile("" : : : "memory");
    }
  }

  Tensor from, to;
  std::thread thread;
};

PlainCopy::PlainCopy(int threads, double bytes) {
  auto part = static_cast<int64_t>(bytes) / 2 / threads;
  for (int i = 0; i < threads; ++i) parts_.push_back(std::make_unique<Part>(part));
  for (int i = 1; i < threads; ++i) {
    Part& p = *parts_[static_cast<size_t>(i)];
    p.thread = std::thread([this, &p] { serve(p); });
  }
  bytes_ = 2.0 * static_cast<double>(part) * threads;
}

PlainCopy::~PlainCopy() {
  over_ = true;
  ++round_;
  round_.notify_all();
  for (auto& p : parts_) {
    if (p->thread.joinable()) p->thread.join();
  }
}

void PlainCopy::serve(Part& part) {
  for (int seen = 0;; ++seen) {
    round_.wait(seen);
    if (over_) return;
    part.copy(count_);
    --busy_;
  }
}

double PlainCopy::nanoseconds(int64_t count) {
  auto start = Clock::now();
  count_ = count;
  busy_ = static_cast<int>(parts_.size()) - 1;
  ++round_;
  round_.notify_all();
  parts_.front()->copy(count);
  while (busy_ > 0) std::this_thread::yield();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

double device_copy_gbps(DeviceSession& session) {
  constexpr size_t kBytes = size_t{1} << 30;
  void* from = session.allocate(kBytes, nullptr);
  void* to = session.allocate(kBytes, nullptr);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 20; ++i) {
    least = std::min(least,
                     session.elapsed_ns(nullptr, [&] { session.copy(to, from, kBytes, nullptr); }));
  }
  session.release(from, kBytes, nullptr);
  session.release(to, kBytes, nullptr);
  return 2 * static_cast<double>(kBytes) / least;
}

double Ceilings::gflops(int threads) {
  auto [it, fresh] = gflops_.try_emplace(threads, 0.0);
  if (fresh) it->second = multiply_add_gflops(threads);
  return it->second;
}

double Ceilings::gbps(Traffic traffic, int threads, double bytes) {
  size_t size = std::bit_ceil(std::max<size_t>(static_cast<size_t>(bytes), 4096));
  auto [it, fresh] = gbps_.try_emplace({traffic, threads, size}, 0.0);
  if (fresh) it->second = memory_gbps(traffic, threads, size);
  return it->second;
}

}  // namespace tile::bench
