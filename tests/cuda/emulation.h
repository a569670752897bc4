// Runs printed SIMT kernels on the host: included before the kernel text, which is then compiled as
// C++. The threads of a block are fibres of one host thread, so that barriers and warp exchanges
// are exact; a barrier that only some threads reach, or a block that never ends, aborts the test.
#pragma once

#define TILE_HOST_EMULATION 1

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

namespace tile_emulation {

struct Dimensions {
  unsigned x = 0, y = 0, z = 0;
};

constexpr size_t kStack = 256 << 10;

enum class State : char { running, barrier, cluster, warp, done };

struct Fibre {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  State state = State::running;
};

constexpr size_t kMostBlocks = 8;  // of a cluster
constexpr size_t kShared = 256 << 10;

struct Machine {
  ucontext_t scheduler;
  std::vector<Fibre> fibres;
  unsigned current = 0;
  unsigned block = 1;  // threads
  void (*kernel)() = nullptr;
  int arguments = 0;
  void* const* values = nullptr;
  uint64_t exchanged[32][kMostBlocks * 1024 / 32] = {};
};
inline Machine machine;

}  // namespace tile_emulation

inline tile_emulation::Dimensions threadIdx, blockIdx, blockDim, gridDim;
alignas(
    1024) inline unsigned char shared_memory[tile_emulation::kMostBlocks * tile_emulation::kShared];

namespace tile_emulation {

inline void wait(State state) {
  Fibre& self = machine.fibres[machine.current];
  self.state = state;
  swapcontext(&self.context, &machine.scheduler);
}

// Every parameter of a printed kernel is a pointer or a 64-bit integer: eight-byte values, which
// the host's calling convention passes alike.
template <size_t... I>
void call_with(std::index_sequence<I...>) {
  uint64_t v[sizeof...(I)] = {};
  for (int i = 0; i < machine.arguments; ++i) std::memcpy(&v[i], machine.values[i], 8);
  using Kernel = void (*)(decltype((static_cast<void>(I), uint64_t{}))...);
  reinterpret_cast<Kernel>(machine.kernel)(v[I]...);
}

// Arguments beyond those that the kernel takes do no harm.
constexpr int kFewArguments = 24, kMostArguments = 128;
inline void call() {
  if (machine.arguments <= kFewArguments) {
    call_with(std::make_index_sequence<kFewArguments>());
  } else {
    call_with(std::make_index_sequence<kMostArguments>());
  }
}

// Copies that have not happened yet, by thread, with the number of barriers before them.
struct Later {
  void* to;
  const void* from;
  size_t bytes;
  int group;
};
struct Copies {
  std::vector<Later> later;
  int group = 0;
};
inline std::vector<Copies> copies;

template <int bytes>
void copy_later(void* to, const void* from) {
  constexpr uintptr_t kAlignment = std::min(bytes, 16);
  bool aligned = reinterpret_cast<uintptr_t>(to) % kAlignment == 0 &&
                 reinterpret_cast<uintptr_t>(from) % kAlignment == 0;
  if (!aligned) {
    std::fprintf(stderr, "emulation: a misaligned copy\n");
    std::abort();
  }
  Copies& mine = copies[machine.current];
  mine.later.push_back({to, from, bytes, mine.group});
}
template <int pending>
void copy_barrier() {
  Copies& mine = copies[machine.current];
  int due = mine.group++ - pending;
  auto first = std::stable_partition(mine.later.begin(), mine.later.end(),
                                     [&](const Later& l) { return l.group > due; });
  for (auto it = first; it != mine.later.end(); ++it) std::memcpy(it->to, it->from, it->bytes);
  mine.later.erase(first, mine.later.end());
  wait(State::barrier);
}

inline void fibre_main() {
  call();
  wait(State::done);
}

inline void fault(const char* what) {
  std::fprintf(stderr, "emulation: %s\n", what);
  std::abort();
}

// Resumes the threads of a cluster's blocks in turn until all wait at a barrier or have ended.
inline void run_blocks(unsigned first, int block, int blocks) {
  int threads = block * blocks;
  copies.assign(static_cast<size_t>(threads), {});
  for (int t = 0; t < threads; ++t) {
    Fibre& f = machine.fibres[static_cast<size_t>(t)];
    getcontext(&f.context);
    if (!f.stack) f.stack = std::make_unique_for_overwrite<char[]>(kStack);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = kStack;
    f.context.uc_link = nullptr;
    f.state = State::running;
    makecontext(&f.context, fibre_main, 0);
  }
  auto count = [&](State state, int from, int to) {
    int n = 0;
    for (int t = from; t < to; ++t) n += machine.fibres[static_cast<size_t>(t)].state == state;
    return n;
  };
  while (count(State::done, 0, threads) < threads) {
    bool moved = false;
    for (int t = 0; t < threads; ++t) {
      Fibre& f = machine.fibres[static_cast<size_t>(t)];
      if (f.state != State::running) continue;
      moved = true;
      machine.current = static_cast<unsigned>(t);
      auto linear = static_cast<unsigned>(t % block);
      threadIdx.x = linear % blockDim.x;
      threadIdx.y = linear / blockDim.x % blockDim.y;
      threadIdx.z = linear / blockDim.x / blockDim.y;
      blockIdx.x = first + static_cast<unsigned>(t / block);
      swapcontext(&machine.scheduler, &f.context);
    }
    for (int w = 0; w < threads; w += 32) {
      int end = std::min(w + 32, threads);
      if (count(State::warp, w, end) != end - w) continue;
      for (int t = w; t < end; ++t) machine.fibres[static_cast<size_t>(t)].state = State::running;
      moved = true;
    }
    auto pass = [&](State barrier, int from, int to) {
      if (count(barrier, from, to) != to - from) return;
      for (int t = from; t < to; ++t) machine.fibres[static_cast<size_t>(t)].state = State::running;
      moved = true;
    };
    for (int b = 0; b < threads; b += block) pass(State::barrier, b, b + block);
    pass(State::cluster, 0, threads);
    if (!moved && count(State::done, 0, threads) < threads) {
      fault("a barrier that some threads do not reach");
    }
  }
}

// Blocks of a cluster: each has a part of the shared memory.
inline int cluster_block() { return static_cast<int>(machine.current / machine.block); }
inline unsigned char* own_memory(unsigned char* p) {
  return p + static_cast<size_t>(cluster_block()) * kShared;
}
template <class T>
T* in_block(T* p, int block) {
  auto* at = reinterpret_cast<unsigned char*>(p);
  return reinterpret_cast<T*>(at + (block - cluster_block()) * static_cast<ptrdiff_t>(kShared));
}
inline void cluster_barrier() { wait(State::cluster); }

template <class T>
T exchange(T value, unsigned source) {
  unsigned t = machine.current, warp = t / 32, lane = t % 32;
  static_assert(sizeof(T) <= 8);
  std::memcpy(&machine.exchanged[lane][warp], &value, sizeof value);
  wait(State::warp);
  T result;
  std::memcpy(&result, &machine.exchanged[source % 32][warp], sizeof result);
  wait(State::warp);
  return result;
}

}  // namespace tile_emulation

// What NVRTC builds in.
inline void __syncthreads() { tile_emulation::wait(tile_emulation::State::barrier); }
inline void __syncwarp(unsigned = ~0u) { tile_emulation::wait(tile_emulation::State::warp); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return tile_emulation::exchange(
      value, (tile_emulation::machine.current ^ static_cast<unsigned>(mask)) & 31u);
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned delta) {
  unsigned lane = tile_emulation::machine.current & 31u;
  return tile_emulation::exchange(value, lane + delta < 32u ? lane + delta : lane);
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned delta) {
  unsigned lane = tile_emulation::machine.current & 31u;
  return tile_emulation::exchange(value, lane >= delta ? lane - delta : lane);
}
template <class T>
T __shfl_sync(unsigned, T value, int source) {
  return tile_emulation::exchange(value, static_cast<unsigned>(source) & 31u);
}
inline float __uint_as_float(unsigned bits) {
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}
inline unsigned __float_as_uint(float f) {
  unsigned bits;
  std::memcpy(&bits, &f, sizeof bits);
  return bits;
}
inline double __longlong_as_double(long long bits) {
  double d;
  std::memcpy(&d, &bits, sizeof d);
  return d;
}
inline long long __double_as_longlong(double d) {
  long long bits;
  std::memcpy(&bits, &d, sizeof bits);
  return bits;
}
inline float __double2float_rz(double x) {
  float r = static_cast<float>(x);
  if (std::isnan(x) || std::isinf(x) || static_cast<double>(r) == x) return r;
  return std::fabs(static_cast<double>(r)) > std::fabs(x) ? std::nextafterf(r, 0.0f) : r;
}
inline double __ll2double_rz(long long x) {
  auto r = static_cast<double>(x);
  long double exact = static_cast<long double>(x), got = static_cast<long double>(r);
  return std::fabs(got) > std::fabs(exact) ? std::nextafter(r, 0.0) : r;
}
inline double __ull2double_rz(unsigned long long x) {
  auto r = static_cast<double>(x);
  return static_cast<long double>(r) > static_cast<long double>(x) ? std::nextafter(r, 0.0) : r;
}

// Conversions that are single instructions there.
namespace tile_emulation {

inline unsigned short half_bits(float x) {
  unsigned b = __float_as_uint(x), sign = b >> 16 & 0x8000u;
  float size = std::fabs(x);
  if (x != x) return 0x7e00;
  if (size >= 65520.0f) return static_cast<unsigned short>(sign | 0x7c00u);
  int exponent = 0;
  std::frexp(size, &exponent);
  int unit = std::max(exponent - 11, -24);
  float steps = std::nearbyintf(std::ldexp(size, -unit));  // ties to even
  float rounded = std::ldexp(steps, unit);
  if (rounded < 0x1p-14f)
    return static_cast<unsigned short>(sign | static_cast<unsigned>(rounded * 0x1p24f));
  int e = std::ilogb(rounded);
  auto mantissa = static_cast<unsigned>(std::ldexp(rounded, 10 - e)) - 1024u;
  return static_cast<unsigned short>(sign | static_cast<unsigned>(e + 15) << 10 | mantissa);
}
inline float half_value(unsigned short bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float size = exponent == 0    ? static_cast<float>(mantissa) * 0x1p-24f
               : exponent == 31 ? (mantissa != 0 ? NAN : INFINITY)
                                : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

}  // namespace tile_emulation

// `grid` and `block`: their three extents. `blocks`: of a cluster, along x.
extern "C" void tile_emulate(void (*kernel)(), int arguments, void* const* values,
                             const unsigned* grid, const unsigned* block,
                             unsigned long shared_bytes, unsigned blocks) {
  using namespace tile_emulation;
  unsigned threads = block[0] * block[1] * block[2];
  if (shared_bytes > kShared || arguments > kMostArguments || threads > 1024 || blocks < 1 ||
      blocks > kMostBlocks || grid[0] % blocks != 0) {
    fault("a launch beyond what a block may have");
  }
  machine.kernel = kernel;
  machine.arguments = arguments;
  machine.values = values;
  machine.block = threads;
  size_t fibres = static_cast<size_t>(threads) * blocks;
  if (machine.fibres.size() < fibres) machine.fibres = std::vector<Fibre>(fibres);
  blockDim = {block[0], block[1], block[2]};
  gridDim = {grid[0], grid[1], grid[2]};
  for (unsigned z = 0; z < grid[2]; ++z) {
    for (unsigned y = 0; y < grid[1]; ++y) {
      for (unsigned x = 0; x < grid[0]; x += blocks) {
        blockIdx = {x, y, z};
        for (unsigned i = 0; i < blocks; ++i) {
          std::memset(shared_memory + i * kShared, 0x7f, shared_bytes);
        }
        run_blocks(x, static_cast<int>(threads), static_cast<int>(blocks));
      }
    }
  }
}
