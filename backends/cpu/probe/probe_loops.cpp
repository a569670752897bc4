#include "backends/cpu/probe/probe_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tile::cpu {
namespace {

constexpr int kSteps = 256;  // multiply-adds of each chain in one call

// More independent chains than latency times issue width of any core, fewer than its registers.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) void multiply_add_avx512(int64_t calls) {
  constexpr int kChains = 24;
  __m512 x[kChains];
  __m512 a = _mm512_set1_ps(0.999F), b = _mm512_set1_ps(0.001F);
  for (int c = 0; c < kChains; ++c) x[c] = _mm512_set1_ps(static_cast<float>(c));
  for (int64_t i = 0; i < calls * kSteps; ++i) {
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) x[c] = _mm512_fmadd_ps(x[c], a, b);
  }
  for (int c = 0; c < kChains; ++c) asm volatile("" : : "v"(x[c]));
}

__attribute__((target("avx512f"))) void read_avx512(const void* data, size_t bytes) {
  const auto* at = static_cast<const __m512i*>(data);
  __m512i sum[8] = {};
  for (size_t i = 0; i < bytes / sizeof(__m512i); i += 8) {
#pragma GCC unroll 8
    for (size_t c = 0; c < 8; ++c) sum[c] = _mm512_xor_si512(sum[c], _mm512_load_si512(at + i + c));
  }
  for (__m512i& s : sum) asm volatile("" : : "v"(s));
}

__attribute__((target("avx2"))) void read_avx2(const void* data, size_t bytes) {
  const auto* at = static_cast<const __m256i*>(data);
  __m256i sum[8] = {};
  for (size_t i = 0; i < bytes / sizeof(__m256i); i += 8) {
#pragma GCC unroll 8
    for (size_t c = 0; c < 8; ++c) sum[c] = _mm256_xor_si256(sum[c], _mm256_load_si256(at + i + c));
  }
  for (__m256i& s : sum) asm volatile("" : : "x"(s));
}

void store_around_caches(void* to, const void* from, size_t bytes) {
  constexpr size_t kLine = 4;  // vectors of a cache line, stored together
  auto* out = static_cast<__m128i*>(to);
  const auto* in = static_cast<const __m128i*>(from);
  for (size_t i = 0; i < bytes / sizeof(__m128i); i += kLine) {
#pragma GCC unroll 4
    for (size_t c = i; c < i + kLine; ++c) {
      _mm_stream_si128(out + c, in != nullptr ? _mm_loadu_si128(in + c) : _mm_setzero_si128());
    }
  }
  _mm_sfence();
}

__attribute__((target("avx2,fma"))) void multiply_add_avx2(int64_t calls) {
  constexpr int kChains = 12;
  __m256 x[kChains];
  __m256 a = _mm256_set1_ps(0.999F), b = _mm256_set1_ps(0.001F);
  for (int c = 0; c < kChains; ++c) x[c] = _mm256_set1_ps(static_cast<float>(c));
  for (int64_t i = 0; i < calls * kSteps; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) x[c] = _mm256_fmadd_ps(x[c], a, b);
  }
  for (int c = 0; c < kChains; ++c) asm volatile("" : : "x"(x[c]));
}
#endif

// Four lanes of whatever vectors the build's own target has.
void multiply_add_generic(int64_t calls) {
  constexpr int kChains = 8;
  using Lanes = float __attribute__((vector_size(16)));
  Lanes x[kChains];
  Lanes a = {0.999F, 0.999F, 0.999F, 0.999F}, b = {0.001F, 0.001F, 0.001F, 0.001F};
  for (int c = 0; c < kChains; ++c) x[c] = Lanes{} + static_cast<float>(c);
  for (int64_t i = 0; i < calls * kSteps; ++i) {
#pragma GCC unroll 8
    for (int c = 0; c < kChains; ++c) x[c] = x[c] * a + b;
  }
  for (int c = 0; c < kChains; ++c) asm volatile("" : : "m"(x[c]));
}

void read_generic(const void* data, size_t bytes) {
  using Lanes = uint64_t __attribute__((vector_size(16)));
  const auto* at = static_cast<const Lanes*>(data);
  Lanes sum[8] = {};
  for (size_t i = 0; i < bytes / sizeof(Lanes); i += 8) {
#pragma GCC unroll 8
    for (size_t c = 0; c < 8; ++c) sum[c] ^= at[i + c];
  }
  for (Lanes& s : sum) asm volatile("" : : "m"(s));
}

ProbeLoops choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    return {"avx512", 24.0 * 16 * 2 * kSteps, multiply_add_avx512, read_avx512,
            store_around_caches};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {"avx2", 12.0 * 8 * 2 * kSteps, multiply_add_avx2, read_avx2, store_around_caches};
  }
  return {"generic", 8.0 * 4 * 2 * kSteps, multiply_add_generic, read_generic, store_around_caches};
#else
  return {"generic", 8.0 * 4 * 2 * kSteps, multiply_add_generic, read_generic, nullptr};
#endif
}

}  // namespace

const ProbeLoops& probe_loops() {
  static const ProbeLoops loops = choose();
  return loops;
}

MultiplyAdd multiply_add_of(int vector_bits) {
#if defined(__x86_64__)
  if (vector_bits == 512 && __builtin_cpu_supports("avx512f")) {
    return {multiply_add_avx512, 24.0 * 16 * kSteps};
  }
  if (vector_bits == 256 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {multiply_add_avx2, 12.0 * 8 * kSteps};
  }
#endif
  if (vector_bits == 128) return {multiply_add_generic, 8.0 * 4 * kSteps};
  return {};
}

}  // namespace tile::cpu
