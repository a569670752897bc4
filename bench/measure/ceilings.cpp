#include "bench/measure/ceilings.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <ctime>
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

// Of the calling thread's processor.
double own_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

// How many calls take so long.
int64_t calls_in(PlainWork& work, double ns) {
  int64_t count = 1;
  while (work.nanoseconds(count) < ns) count *= 2;
  return count;
}
double least_ns(PlainWork& work, int64_t count, int repeats) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) least = std::min(least, work.nanoseconds(count));
  return least;
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

double memory_gbps(const Traffic& traffic, int threads, int repeats) {
  std::unique_ptr<PlainWork> work = plain_traffic(traffic, threads);
  int64_t count = calls_in(*work, kProbeNs);
  return work->amount() * static_cast<double>(count) / least_ns(*work, count, repeats);
}

PlainWork::PlainWork(int threads, double amount, std::function<void(int, int64_t)> part)
    : part_(std::move(part)), amount_(amount), own_ns_(static_cast<size_t>(threads)) {
  for (int i = 1; i < threads; ++i) others_.emplace_back([this, i] { serve(i); });
}

PlainWork::~PlainWork() {
  over_ = true;
  ++round_;
  round_.notify_all();
  for (std::thread& t : others_) t.join();
}

void PlainWork::do_part(int thread) {
  double start = own_ns();
  part_(thread, count_);
  own_ns_[static_cast<size_t>(thread)] = own_ns() - start;
}

void PlainWork::serve(int thread) {
  for (int seen = 0;; ++seen) {
    round_.wait(seen);
    if (over_) return;
    ++awake_;
    while (started_ <= seen) std::this_thread::yield();
    do_part(thread);
    --busy_;
  }
}

double PlainWork::together() {
  auto others = static_cast<int>(others_.size());
  awake_ = 0;
  busy_ = others;
  ++round_;
  round_.notify_all();
  while (awake_ < others) std::this_thread::yield();
  auto start = Clock::now();
  ++started_;
  do_part(0);
  while (busy_ > 0) std::this_thread::yield();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// Parts that ran one after the other had the memory for themselves: that the ceiling is too high is
// possible then, that it is too low is not.
double PlainWork::nanoseconds(int64_t count) {
  constexpr double kWaited = 1.25;  // of the time of a thread that had a processor throughout
  constexpr int kAttempts = 3;
  count_ = count;
  for (int attempt = 1;; ++attempt) {
    double all = together(), longest = *std::max_element(own_ns_.begin(), own_ns_.end());
    if (all <= kWaited * longest || attempt == kAttempts) return std::min(all, longest);
  }
}

std::unique_ptr<PlainWork> plain_multiply_adds(int threads) {
  const cpu::ProbeLoops& loops = cpu::probe_loops();
  return std::make_unique<PlainWork>(threads, loops.operations_per_call * threads,
                                     [&](int, int64_t count) { loops.multiply_add(count); });
}

namespace {

// Ways to store many bytes. Which is the fastest depends on what the caches hold of them, and libc
// knows only the caches that the system tells of: past these it stores around all of them, and in
// pieces it never does.
enum class Way : uint8_t { whole, pieces, around_caches };
constexpr size_t kPiece = 1 << 14;

// `from` null: zeros.
void store(std::byte* to, const std::byte* from, size_t bytes, Way way) {
  if (way == Way::around_caches) return cpu::probe_loops().store_around_caches(to, from, bytes);
  size_t piece = way == Way::whole ? bytes : kPiece;
  for (size_t at = 0; at < bytes; at += piece) {
    size_t now = std::min(piece, bytes - at);
    from != nullptr ? std::memcpy(to + at, from + at, now) : std::memset(to + at, 0, now);
  }
}

// One thread's part.
class Moved {
 public:
  Moved(size_t read, size_t written) : read_(bytes_of(read)), written_(bytes_of(written)) {}
  void once(Way way) {
    auto *from = read_.elements<std::byte>(), *to = written_.elements<std::byte>();
    size_t copied = std::min(read_.bytes(), written_.bytes());
    store(to, from, copied, way);
    store(to + copied, nullptr, written_.bytes() - copied, way);
    cpu::probe_loops().read(from + copied, read_.bytes() - copied);
  }
  double bytes() const { return static_cast<double>(read_.bytes() + written_.bytes()); }

 private:
  static Tensor bytes_of(size_t size) {
    return Tensor(InputType{DType::u8, {static_cast<int64_t>(size)}});
  }
  Tensor read_, written_;
};

void take_the_fastest(PlainWork& work, Way& way) {
  constexpr double kTrialNs = 2e5;
  constexpr int kTrials = 3;
  double least = std::numeric_limits<double>::infinity();
  Way best = way;
  for (Way now : {Way::whole, Way::pieces, Way::around_caches}) {
    if (now == Way::around_caches && cpu::probe_loops().store_around_caches == nullptr) continue;
    way = now;
    int64_t count = calls_in(work, kTrialNs);
    double ns = least_ns(work, count, kTrials) / static_cast<double>(count);
    if (ns < least) best = now;
    least = std::min(least, ns);
  }
  way = best;
}

}  // namespace

std::unique_ptr<PlainWork> plain_traffic(const Traffic& traffic, int threads) {
  constexpr size_t kMultiple = 1024;  // what the loops take
  auto part_of = [&](double bytes) {
    return static_cast<size_t>(bytes) / static_cast<size_t>(threads) / kMultiple * kMultiple;
  };
  size_t written = part_of(traffic.written), read = part_of(traffic.read);
  if (written == 0) read = std::max(read, kMultiple);
  struct State {
    std::vector<Moved> parts;
    Way way = Way::whole;
  };
  auto state = std::make_shared<State>();
  for (int i = 0; i < threads; ++i) state->parts.emplace_back(read, written);
  auto part = [=](int thread, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      state->parts[static_cast<size_t>(thread)].once(state->way);
      // The compiler must not drop or merge calls.
      asm volatile("" : : : "memory");
    }
  };
  auto work = std::make_unique<PlainWork>(threads, threads * state->parts.front().bytes(), part);
  if (written > 0) take_the_fastest(*work, state->way);
  return work;
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

double Ceilings::gbps(const Traffic& traffic, int threads) {
  constexpr int kParts = 16;
  size_t size = std::bit_ceil(std::max<size_t>(static_cast<size_t>(traffic.bytes()), 4096));
  double all = std::max(traffic.bytes(), 1.0);
  auto written = static_cast<int>(kParts * traffic.written / all + 0.5);
  auto [it, fresh] = gbps_.try_emplace({threads, size, written}, 0.0);
  if (fresh) {
    double bytes = static_cast<double>(size) / kParts;
    Traffic probed{bytes * (kParts - written), bytes * written};
    it->second = memory_gbps(probed, threads, quick_ ? kQuickRepeats : kRepeats);
  }
  return it->second;
}

}  // namespace tile::bench
