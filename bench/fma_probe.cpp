#include "bench/fma_probe.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tile::bench {
namespace {

constexpr int kSteps = 256;  // multiply-adds of each chain in one call

// More independent chains than latency times issue width of any core, fewer than its registers.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) void run_avx512(int64_t calls) {
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

__attribute__((target("avx2,fma"))) void run_avx2(int64_t calls) {
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
void run_generic(int64_t calls) {
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

FmaProbe choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {"avx512", 24.0 * 16 * 2 * kSteps, run_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {"avx2", 12.0 * 8 * 2 * kSteps, run_avx2};
  }
#endif
  return {"generic", 8.0 * 4 * 2 * kSteps, run_generic};
}

}  // namespace

const FmaProbe& fma_probe() {
  static const FmaProbe probe = choose();
  return probe;
}

}  // namespace tile::bench
