#include "bench/measure/ceilings.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "backends/cpu/probe/probe_loops.h"
#include "bench/measure/tensor.h"

namespace tile::bench {
namespace {

using Clock = std::chrono::steady_clock;
// Many short probes: on a machine that others use, some of them are left alone.
constexpr int kRepeats = 60, kQuickRepeats = 6;
constexpr double kProbeNs = 2e6;

// Runs `work(thread)` on every thread at once.
void together(int threads, const std::function<void(int)>& work) {
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
  go = true;
  work(0);
  for (std::thread& t : others) t.join();
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

double memory_gbps(Traffic traffic, int threads, size_t bytes, int repeats) {
  std::unique_ptr<PlainWork> work = plain_traffic(traffic, threads, static_cast<double>(bytes));
  int64_t count = 1;
  while (work->nanoseconds(count) < kProbeNs) count *= 2;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) least = std::min(least, work->nanoseconds(count));
  return work->amount() * static_cast<double>(count) / least;
}

PlainWork::PlainWork(int threads, double amount, std::function<void(int, int64_t)> part)
    : part_(std::move(part)), amount_(amount) {
  for (int i = 1; i < threads; ++i) others_.emplace_back([this, i] { serve(i); });
}

PlainWork::~PlainWork() {
  over_ = true;
  ++round_;
  round_.notify_all();
  for (std::thread& t : others_) t.join();
}

void PlainWork::serve(int thread) {
  for (int seen = 0;; ++seen) {
    round_.wait(seen);
    if (over_) return;
    ++awake_;
    while (started_ <= seen) std::this_thread::yield();
    part_(thread, count_);
    --busy_;
  }
}

double PlainWork::nanoseconds(int64_t count) {
  auto others = static_cast<int>(others_.size());
  count_ = count;
  awake_ = 0;
  busy_ = others;
  ++round_;
  round_.notify_all();
  while (awake_ < others) std::this_thread::yield();
  auto start = Clock::now();
  ++started_;
  part_(0, count);
  while (busy_ > 0) std::this_thread::yield();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

std::unique_ptr<PlainWork> plain_multiply_adds(int threads) {
  const cpu::ProbeLoops& loops = cpu::probe_loops();
  return std::make_unique<PlainWork>(threads, loops.operations_per_call * threads,
                                     [&](int, int64_t count) { loops.multiply_add(count); });
}

std::unique_ptr<PlainWork> plain_traffic(Traffic traffic, int threads, double bytes) {
  constexpr int64_t kMultiple = 1024;  // what the reading loop takes
  int buffers = traffic == Traffic::copy ? 2 : 1;
  auto size = static_cast<int64_t>(bytes) / buffers / threads / kMultiple * kMultiple;
  size = std::max(size, kMultiple);
  auto memory = std::make_shared<std::vector<Tensor>>();
  for (int i = 0; i < threads * buffers; ++i) memory->emplace_back(InputType{DType::u8, {size}});
  auto part = [=](int thread, int64_t count) {
    Tensor& from = (*memory)[static_cast<size_t>(thread * buffers)];
    Tensor& to = (*memory)[static_cast<size_t>((thread + 1) * buffers - 1)];
    for (int64_t i = 0; i < count; ++i) {
      if (traffic == Traffic::read) {
        cpu::probe_loops().read(from.data(), from.bytes());
      } else {
        std::memcpy(to.data(), from.data(), from.bytes());
      }
      // The compiler must not drop or merge calls.
      asm volatile("" : : : "memory");
    }
  };
  return std::make_unique<PlainWork>(threads, static_cast<double>(size * buffers * threads), part);
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
  if (fresh) it->second = memory_gbps(traffic, threads, size, quick_ ? kQuickRepeats : kRepeats);
  return it->second;
}

}  // namespace tile::bench
