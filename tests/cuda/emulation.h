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
void finish_copies(int pending);

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
