#include "backends/cpu/probe/probe_dot_products.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tile::cpu {
namespace {

using Instructions = void (*)(int64_t rounds);

// A function that runs twelve independent instructions a round, on registers of zeros.
#define ROUNDS(name, prefix, instruction, width)                                                \
  void name(int64_t rounds) {                                                                   \
    asm volatile(                                                                               \
        ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13\n\t"                                            \
        "vpxor %%xmm\\r, %%xmm\\r, %%xmm\\r\n\t"                                                \
        ".endr\n"                                                                               \
        "1:\n\t"                                                                                \
        ".irp r,0,1,2,3,4,5,6,7,8,9,10,11\n\t" prefix instruction " %%" width "12, %%" width    \
        "13, %%" width                                                                          \
        "\\r\n\t"                                                                               \
        ".endr\n\t"                                                                             \
        "dec %0\n\t"                                                                            \
        "jnz 1b\n\t"                                                                            \
        "vzeroupper"                                                                            \
        : "+r"(rounds)                                                                          \
        :                                                                                       \
        : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", \
          "xmm10", "xmm11", "xmm12", "xmm13");                                                  \
  }
ROUNDS(fma_512, "", "vfmadd231ps", "zmm")
ROUNDS(bf16_512, "", "vdpbf16ps", "zmm")
ROUNDS(words_512, "", "vpdpwssd", "zmm")
ROUNDS(bytes_512, "", "vpdpbusd", "zmm")
ROUNDS(fma_256, "", "vfmadd231ps", "ymm")
ROUNDS(words_256, "%{vex%} ", "vpdpwssd", "ymm")
ROUNDS(bytes_256, "%{vex%} ", "vpdpbusd", "ymm")
#undef ROUNDS

double nanoseconds(Instructions run) {
  constexpr int64_t kRounds = 256;
  auto start = std::chrono::steady_clock::now();
  run(kRounds);
  std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  return taken.count();
}

// How many of the instruction take the time of one multiply-add, to a power of two.
double share(Instructions run, Instructions fma) {
  constexpr int kTrials = 12;
  double best = std::numeric_limits<double>::infinity(), best_fma = best;
  for (int i = 0; i < kTrials; ++i) {
    best_fma = std::min(best_fma, nanoseconds(fma));
    best = std::min(best, nanoseconds(run));
  }
  return std::exp2(std::round(std::log2(std::max(best_fma, 1.0) / std::max(best, 1.0))));
}

}  // namespace

void probe_dot_products(const llvm::StringMap<bool>& features, Target& target) {
  bool wide = target.vector_bits == 512 && features.lookup("avx512vl");
  double pair = 2 * target.fma_per_ns, four = 4 * target.fma_per_ns;
  if (wide && features.lookup("avx512bf16")) {
    target.dot_bf16_per_ns = pair * share(bf16_512, fma_512);
  }
  if (wide && features.lookup("avx512vnni")) {
    target.dot_i16_per_ns = pair * share(words_512, fma_512);
    target.dot_i8_per_ns = four * share(bytes_512, fma_512);
  } else if (target.vector_bits == 256 && features.lookup("avxvnni")) {
    target.dot_i16_per_ns = pair * share(words_256, fma_256);
    target.dot_i8_per_ns = four * share(bytes_256, fma_256);
  }
}

}  // namespace tile::cpu
