// Included before the text of printed SIMT kernels, which is then compiled as C++ for the host and
// run by tests/cuda/machine.h. It is compiled with -fsanitize=thread, whose calls before each
// access to memory come to the machine instead of the sanitizer's library: they find races.
#pragma once

#define TILE_HOST_EMULATION 1

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

namespace tile_emulation {

struct Dimensions {
  unsigned x = 0, y = 0, z = 0;
};

// What machine.cpp does for a kernel's threads.
void accessed(const void* memory, size_t bytes, bool writes);
void block_barrier();
void cluster_barrier();
void warp_barrier();
unsigned current_lane();
uint64_t exchange(uint64_t value, unsigned source);  // what that lane of the warp gives
void copy_later(void* to, const void* from, size_t bytes);
void commit_copies();
void wait_for_copies(int pending);
void finish_copies(int pending);  // both
// Gives each lane of a warp the words of all: those of lane l from all[l * count] on.
void gather(const unsigned* mine, unsigned count, unsigned* all);

struct BoxMap;  // machine.h
// Barriers in shared memory, by their places there: a phase ends when all have arrived and all
// bytes have come that were said to.
void init_barrier(unsigned barrier, unsigned count);
void arrive(unsigned barrier, long long expected_bytes);
void wait_for_phase(unsigned barrier, unsigned parity);
// Copies a box into lines of 128 bytes, swizzled; it has come at once.
void load_box(unsigned to, const BoxMap& map, unsigned barrier, const int* coordinates);

// Blocks of a cluster: each has a part of the shared memory.
int cluster_block();
unsigned char* own_memory(unsigned char* shared);
unsigned char* memory_in_block(unsigned char* own, int block);
template <class T>
T* in_block(T* p, int block) {
  return reinterpret_cast<T*>(memory_in_block(reinterpret_cast<unsigned char*>(p), block));
}

template <int bytes>
void copy_later(void* to, const void* from) {
  copy_later(to, from, bytes);
}
template <int pending>
void copy_barrier() {
  finish_copies(pending);
  block_barrier();
}

template <class T>
T exchange_of(T value, unsigned source) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(bits, source % 32);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace tile_emulation

extern tile_emulation::Dimensions threadIdx, blockIdx, blockDim, gridDim;
extern unsigned char shared_memory[];

// The calls of -fsanitize=thread.
#define TILE_HOOK extern "C" __attribute__((no_sanitize("thread"), visibility("hidden"), used)) void
#define TILE_ACCESS(bytes)                                                                       \
  TILE_HOOK __tsan_read##bytes(void* p) { tile_emulation::accessed(p, bytes, false); }           \
  TILE_HOOK __tsan_write##bytes(void* p) { tile_emulation::accessed(p, bytes, true); }           \
  TILE_HOOK __tsan_unaligned_read##bytes(void* p) { tile_emulation::accessed(p, bytes, false); } \
  TILE_HOOK __tsan_unaligned_write##bytes(void* p) { tile_emulation::accessed(p, bytes, true); }
TILE_ACCESS(1)
TILE_ACCESS(2)
TILE_ACCESS(4)
TILE_ACCESS(8)
TILE_ACCESS(16)
TILE_HOOK __tsan_read_range(void* p, size_t n) { tile_emulation::accessed(p, n, false); }
TILE_HOOK __tsan_write_range(void* p, size_t n) { tile_emulation::accessed(p, n, true); }
TILE_HOOK __tsan_func_entry(void*) {}
TILE_HOOK __tsan_func_exit() {}
TILE_HOOK __tsan_init() {}
#undef TILE_ACCESS
#undef TILE_HOOK

// What NVRTC builds in.
inline void __syncthreads() { tile_emulation::block_barrier(); }
inline void __syncwarp(unsigned = ~0u) { tile_emulation::warp_barrier(); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return tile_emulation::exchange_of(value,
                                     tile_emulation::current_lane() ^ static_cast<unsigned>(mask));
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned delta) {
  unsigned lane = tile_emulation::current_lane();
  return tile_emulation::exchange_of(value, lane + delta < 32u ? lane + delta : lane);
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned delta) {
  unsigned lane = tile_emulation::current_lane();
  return tile_emulation::exchange_of(value, lane >= delta ? lane - delta : lane);
}
template <class T>
T __shfl_sync(unsigned, T value, int source) {
  return tile_emulation::exchange_of(value, static_cast<unsigned>(source));
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
  int unit = exponent < -13 ? -24 : exponent - 11;
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

// The instructions of kernels with a streamed axis (backends/cuda/matrix/stream_source.cpp), as the
// PTX manual describes them: matrix fragments of warps, and factors that descriptors say where they
// lie.
namespace tile_emulation::stream {

inline unsigned stream_address(const void* p) {
  return static_cast<unsigned>(static_cast<const unsigned char*>(p) - shared_memory);
}
inline void stream_commit() { commit_copies(); }
template <int pending>
void stream_wait() {
  wait_for_copies(pending);
}
template <int bytes>
void stream_copy(unsigned to, const void* from, int take) {
  unsigned char* place = shared_memory + to;
  if (take == bytes) return copy_later(place, from, bytes);
  for (int i = 0; i < bytes; i += 2) {
    unsigned short element = 0;
    if (i < take)
      element = *reinterpret_cast<const unsigned short*>(static_cast<const char*>(from) + i);
    *reinterpret_cast<unsigned short*>(place + i) = element;
  }
}
inline void stream_store(unsigned to, const unsigned (&w)[4]) {
  for (int i = 0; i < 4; ++i) reinterpret_cast<unsigned*>(shared_memory + to)[i] = w[i];
}
inline unsigned short element_at(unsigned address) {
  return *reinterpret_cast<const unsigned short*>(shared_memory + address);
}

// Lane 8 m + r gives the address of row r of matrix m.
inline void stream_load(unsigned (&r)[4], unsigned from) {
  unsigned all[32];
  gather(&from, 1, all);
  unsigned lane = current_lane();
  for (unsigned m = 0; m < 4; ++m) {
    r[m] = *reinterpret_cast<const unsigned*>(shared_memory + all[8 * m + lane / 4] + lane % 4 * 4);
  }
}
inline void stream_load_across(unsigned (&r)[4], unsigned from) {
  unsigned all[32];
  gather(&from, 1, all);
  unsigned lane = current_lane(), row = lane % 4 * 2, column = lane / 4 * 2;
  for (unsigned m = 0; m < 4; ++m) {
    r[m] = element_at(all[8 * m + row] + column) |
           static_cast<unsigned>(element_at(all[8 * m + row + 1] + column)) << 16;
  }
}

// Element (row, k) of the first factor's 16 x 16 fragment, from the words of all lanes.
inline unsigned short fragment_element(const unsigned* all, unsigned count, unsigned row,
                                       unsigned k) {
  unsigned lane = row % 8 * 4 + k % 8 / 2, word = row / 8 + k / 8 * 2;
  return static_cast<unsigned short>(all[lane * count + word] >> k % 2 * 16);
}

template <class Value>
void multiply_fragments(Value value, float* sum, const unsigned* a, unsigned b0, unsigned b1) {
  const unsigned mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
  unsigned all[32 * 6];
  gather(mine, 6, all);
  unsigned lane = current_lane();
  for (unsigned i = 0; i < 4; ++i) {
    unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      unsigned word = all[(column * 4 + k % 8 / 2) * 6 + 4 + k / 8];
      sum[i] += value(fragment_element(all, 6, row, k)) *
                value(static_cast<unsigned short>(word >> k % 2 * 16));
    }
  }
}

// A factor in lines of 128 bytes, swizzled: the 16 bytes of a line are found at their number xor
// the number of the line among eight.
struct Described {
  explicit Described(unsigned long long bits)
      : start((bits & 0x3fff) << 4),
        leading((bits >> 16 & 0x3fff) << 4),
        stride((bits >> 32 & 0x3fff) << 4) {}
  static unsigned swizzled(unsigned address) { return address ^ (address >> 7 & 7) << 4; }
  // Of line `line`, whose bytes are values of k; of one k, in blocks of 64 elements.
  unsigned short along_k(unsigned line, unsigned k) const {
    return element_at(swizzled(start + line / 8 * stride + line % 8 * 128 + k * 2));
  }
  unsigned short across_k(unsigned element, unsigned k) const {
    return element_at(
        swizzled(start + element / 64 * leading + k / 8 * stride + k % 8 * 128 + element % 64 * 2));
  }
  unsigned start, leading, stride;
};

// What a lane has of 64 rows and some columns, of which its warp has 16 rows.
template <class First, class Second>
void multiply_lane(float* sum, int columns, int keep, First first, Second second) {
  unsigned lane = current_lane();
  for (unsigned r = 0; r < static_cast<unsigned>(columns) / 2; ++r) {
    unsigned row = lane / 4 + r / 2 % 2 * 8, column = r / 4 * 8 + lane % 4 * 2 + r % 2;
    if (keep == 0) sum[r] = 0;
    for (unsigned k = 0; k < 16; ++k) sum[r] += first(row, k) * second(column, k);
  }
}
template <class Value>
void multiply_group(Value value, float* sum, int columns, unsigned long long a,
                    unsigned long long b, int keep) {
  Described x(a), y(b);
  unsigned warp = threadIdx.x / 32 % 4;
  multiply_lane(
      sum, columns, keep,
      [&](unsigned row, unsigned k) { return value(x.along_k(16 * warp + row, k)); },
      [&](unsigned column, unsigned k) { return value(y.along_k(column, k)); });
}
template <class Value>
void multiply_group(Value value, float* sum, int columns, const unsigned (&a)[4],
                    unsigned long long b, int keep) {
  Described y(b);
  unsigned all[32 * 4];
  gather(a, 4, all);
  multiply_lane(
      sum, columns, keep,
      [&](unsigned row, unsigned k) { return value(fragment_element(all, 4, row, k)); },
      [&](unsigned column, unsigned k) { return value(y.across_k(column, k)); });
}

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a < b ? b : a; }
inline float power_of_two(float x) { return std::exp2(x); }
inline float rounded_product(float a, float b) { return a * b; }

}  // namespace tile_emulation::stream

// Bulk copies, as backends/cuda/matrix/matrix_prelude.cpp declares them.
namespace tile_emulation::bulk {

struct TensorMap {
  const BoxMap* map;
};
inline void barrier_init(unsigned barrier, unsigned count) { init_barrier(barrier, count); }
inline void barrier_expect(unsigned barrier, unsigned bytes) { arrive(barrier, bytes); }
inline void barrier_arrive(unsigned barrier) { arrive(barrier, 0); }
inline void barrier_wait(unsigned barrier, unsigned parity) { wait_for_phase(barrier, parity); }
inline void barriers_ready() { block_barrier(); }
template <class... Coordinates>
void box_load(unsigned to, const TensorMap* map, unsigned barrier, Coordinates... coordinates) {
  const int list[] = {coordinates...};
  load_box(to, *map->map, barrier, list);
}

}  // namespace tile_emulation::bulk
