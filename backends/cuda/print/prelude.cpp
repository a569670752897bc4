#include "backends/cuda/print/prelude.h"

#include <string>

namespace tile::cuda {
namespace {

constexpr std::string_view kTypes = R"(typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct f8e4m3 { u8 bits; };
struct f8e5m2 { u8 bits; };
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack { T e[N]; };
#define FN static __device__ __forceinline__
)";

// Round to odd keeps what a second rounding to fewer digits needs.
constexpr std::string_view kNarrowFloats = R"(#ifndef TILE_HOST_EMULATION
FN f16 to_f16(f32 x) { f16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(x)); return r; }
FN f32 from(f16 x) { f32 r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits)); return r; }
#else
FN f16 to_f16(f32 x) { f16 r; r.bits = tile_emulation::half_bits(x); return r; }
FN f32 from(f16 x) { return tile_emulation::half_value(x.bits); }
#endif
FN bf16 to_bf16(f32 x) {
  bf16 r;
#if !defined(TILE_HOST_EMULATION) && __CUDA_ARCH__ >= 800
  // Of two, one is zero: the conversion of one alone runs at a quarter of the throughput (H200).
  u32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(0.0f), "f"(x));
  r.bits = (u16)both;
#else
  u32 b = __float_as_uint(x);
  r.bits = x != x ? (u16)0x7fff : (u16)((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
#endif
  return r;
}
FN f32 from(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
FN f32 odd(f64 x) {
  f32 r = __double2float_rz(x);
  return (f64)r != x ? __uint_as_float(__float_as_uint(r) | 1u) : r;
}
FN f64 odd(i64 x) {
  f64 r = __ll2double_rz(x);
  return (i64)r != x ? __longlong_as_double(__double_as_longlong(r) | 1) : r;
}
FN f64 odd(u64 x) {
  f64 r = __ull2double_rz(x);
  return (u64)r != x ? __longlong_as_double(__double_as_longlong(r) | 1) : r;
}
FN f16 to_f16(f64 x) { return to_f16(odd(x)); }
FN f16 to_f16(i32 x) { return to_f16(odd((f64)x)); }
FN f16 to_f16(u32 x) { return to_f16(odd((f64)x)); }
FN f16 to_f16(i64 x) { return to_f16(odd(odd(x))); }
FN f16 to_f16(u64 x) { return to_f16(odd(odd(x))); }
FN f16 to_f16(bf16 x) { return to_f16(from(x)); }
FN bf16 to_bf16(f64 x) { return to_bf16(odd(x)); }
FN bf16 to_bf16(i32 x) { return to_bf16(odd((f64)x)); }
FN bf16 to_bf16(u32 x) { return to_bf16(odd((f64)x)); }
FN bf16 to_bf16(i64 x) { return to_bf16(odd(odd(x))); }
FN bf16 to_bf16(u64 x) { return to_bf16(odd(odd(x))); }
FN bf16 to_bf16(f16 x) { return to_bf16(from(x)); }
template <int mantissa, int bias, int infinity, int nan> FN u8 f8_bits(f32 x) {
  const u32 dropped = 23 - mantissa, rebias = (127 - bias) << 23;
  const u32 unit = (127 + 24 - bias - mantissa) << 23;
  u32 b = __float_as_uint(x), m = b & 0x7fffffffu;
  u32 r = m >= rebias + 0x800000u
              ? (m - rebias + (1u << (dropped - 1)) - 1u + (m >> dropped & 1u)) >> dropped
              : __float_as_uint(__uint_as_float(m) + __uint_as_float(unit)) - unit;
  const u32 beyond = infinity ? infinity : nan;
  return (u8)((m > 0x7f800000u ? nan : r >= beyond ? beyond : r) | (b >> 24 & 0x80u));
}
template <int mantissa, int bias, int infinity, int nan> FN f32 f8_value(u8 bits) {
  u32 m = bits & 0x7fu;
  u32 b = __float_as_uint(__uint_as_float(m << (23 - mantissa)) *
                          __uint_as_float((254u - bias) << 23));
  if (m >= (infinity ? infinity : nan)) b = infinity == m ? 0x7f800000u : 0x7fc00000u;
  return __uint_as_float(b | (u32)(bits & 0x80u) << 24);
}
#define TILE_F8(T, ...)                                                          \
  FN T to_##T(f32 x) { T r; r.bits = f8_bits<__VA_ARGS__>(x); return r; }        \
  FN f32 from(T x) { return f8_value<__VA_ARGS__>(x.bits); }                     \
  FN T to_##T(f64 x) { return to_##T(odd(x)); }                                  \
  FN T to_##T(i32 x) { return to_##T(odd((f64)x)); }                             \
  FN T to_##T(u32 x) { return to_##T(odd((f64)x)); }                             \
  FN T to_##T(i64 x) { return to_##T(odd(odd(x))); }                             \
  FN T to_##T(u64 x) { return to_##T(odd(odd(x))); }
TILE_F8(f8e4m3, 3, 7, 0, 0x7f)
TILE_F8(f8e5m2, 2, 15, 0x7c, 0x7e)
#undef TILE_F8
template <class I, class F> FN I saturate(F x, I lo, I hi) {
  return x != x ? (I)0 : x <= (F)lo ? lo : x >= (F)hi ? hi : (I)x;
}
)";

// pick: ptxas (of CUDA 12.9 and 13.0, for sm_90 and sm_100) joins two signed maxima or minima of 32
// bits into one instruction of three operands and loses the negation of an operand on the way:
// max(max(a, -b), c) becomes max(a, b, c). A selection that the compiler in front of it cannot read
// never becomes a maximum there. Unsigned ones and those of other widths are not joined like that.
constexpr std::string_view kIntegers = R"(FN i32 quotient(i32 a, i32 b) {
  return b == 0 ? 0 : b == -1 ? (i32)(0u - (u32)a) : a / b;
}
FN i64 quotient(i64 a, i64 b) { return b == 0 ? 0 : b == -1 ? (i64)(0ull - (u64)a) : a / b; }
FN u32 quotient(u32 a, u32 b) { return b == 0 ? 0 : a / b; }
FN u64 quotient(u64 a, u64 b) { return b == 0 ? 0 : a / b; }
FN i32 remainder(i32 a, i32 b) { return b == 0 || b == -1 ? 0 : a % b; }
FN i64 remainder(i64 a, i64 b) { return b == 0 || b == -1 ? 0 : a % b; }
FN u32 remainder(u32 a, u32 b) { return b == 0 ? 0 : a % b; }
FN u64 remainder(u64 a, u64 b) { return b == 0 ? 0 : a % b; }
template <class I> FN I floor_quotient(I a, I b) {
  I q = quotient(a, b);
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
template <class I> FN I floor_remainder(I a, I b) {
  I r = remainder(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
FN i32 shl(i32 a, i32 b) { return (u32)b >= 32u ? 0 : (i32)((u32)a << b); }
FN u32 shl(u32 a, u32 b) { return b >= 32u ? 0 : a << b; }
FN i64 shl(i64 a, i64 b) { return (u64)b >= 64u ? 0 : (i64)((u64)a << b); }
FN u64 shl(u64 a, u64 b) { return b >= 64u ? 0 : a << b; }
FN i32 shr(i32 a, i32 b) { return a >> ((u32)b >= 32u ? 31 : b); }
FN u32 shr(u32 a, u32 b) { return b >= 32u ? 0 : a >> b; }
FN i64 shr(i64 a, i64 b) { return a >> ((u64)b >= 64u ? 63 : b); }
FN u64 shr(u64 a, u64 b) { return b >= 64u ? 0 : a >> b; }
#if !defined(TILE_HOST_EMULATION) && __CUDA_ARCH__ >= 900
FN i32 pick(bool first, i32 a, i32 b) {
  i32 r, mask = first ? -1 : 0;
  asm("and.b32 %0, %1, %2;" : "=r"(r) : "r"(mask), "r"(a ^ b));
  return r ^ b;
}
#else
FN i32 pick(bool first, i32 a, i32 b) { return first ? a : b; }
#endif
template <class I> FN I largest(I a, I b) { return a < b ? b : a; }
template <class I> FN I least(I a, I b) { return b < a ? b : a; }
FN i32 largest(i32 a, i32 b) { return pick(a < b, b, a); }
FN i32 least(i32 a, i32 b) { return pick(b < a, b, a); }
FN i16 largest(i16 a, i16 b) { return (i16)pick(a < b, b, a); }
FN i16 least(i16 a, i16 b) { return (i16)pick(b < a, b, a); }
FN i8 largest(i8 a, i8 b) { return (i8)pick(a < b, b, a); }
FN i8 least(i8 a, i8 b) { return (i8)pick(b < a, b, a); }
template <class I> FN I sign_of(I x) { return x > 0 ? (I)1 : x < 0 ? (I)-1 : x; }
FN u64 scramble(u64 z) {
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  return z ^ z >> 31;
}
FN f32 uniform(i64 seed, i64 counter) {
  u64 g = 0x9E3779B97F4A7C15ull, a = scramble((u64)seed + g), b = scramble(a + g);
  return (f32)(scramble(scramble((u64)counter * g + a) + b) >> 40) * 0x1p-24f;
}
)";

// gelu, f64: the rounding of t = -x/sqrt(2) matters where erfc falls fast (its logarithmic
// derivative is about -2t there), so that the rounded-off part is put back to first order. f32: x
// Phi(x) with the tail Phi(-a) = exp(-a^2 / 2) q(s), s = 1 / (1 + 0.35 a), where q is a polynomial
// fitted to relative errors of 2^-24.9 over 0 <= a <= 14.5 (iterated least squares, as Remez's
// exchange finds it); beyond that the tail is zero in f32. The rounded-off part of a^2 / 2 is put
// back likewise. Within 6 units in the last place, in a third of the instructions that erfcf takes.
//
// divided: a quotient without a branch, for loops. What the compiler makes of `/` jumps for numbers
// far from one, so that no element's loads begin before the one before it is divided. The steps are
// the compiler's own (a reciprocal, and remainders by fma), correctly rounded for magnitudes
// between 2^-60 and 2^60; others are within two units in the last place.
constexpr std::string_view kReals =
    R"(#ifndef TILE_HOST_EMULATION
FN bool in_middle(f32 x) { return (__float_as_uint(x) >> 23 & 255u) - 67u < 120u; }
FN f32 divided(f32 a, f32 b) {
  f32 far, r;
  asm("div.full.f32 %0, %1, %2;" : "=f"(far) : "f"(a), "f"(b));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(b));
  r = __fmaf_rn(r, __fmaf_rn(-b, r, 1.0f), r);
  f32 q = __fmul_rn(a, r);
  q = __fmaf_rn(__fmaf_rn(-b, q, a), r, q);
  q = __fmaf_rn(__fmaf_rn(-b, q, a), r, q);
  return in_middle(a) && in_middle(b) ? q : far;
}
#else
FN f32 divided(f32 a, f32 b) { return a / b; }
#endif
#if !defined(TILE_HOST_EMULATION) && __CUDA_ARCH__ >= 800
FN f32 largest(f32 a, f32 b) { f32 r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
FN f32 least(f32 a, f32 b) { f32 r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
#else
FN f32 largest(f32 a, f32 b) { return a != a ? a : b != b ? b : fmaxf(a, b); }
FN f32 least(f32 a, f32 b) { return a != a ? a : b != b ? b : fminf(a, b); }
#endif
FN f64 largest(f64 a, f64 b) {
  return a != a ? a : b != b ? b : a == b ? (__double_as_longlong(a) < 0 ? b : a) : a < b ? b : a;
}
FN f64 least(f64 a, f64 b) {
  return a != a ? a : b != b ? b : a == b ? (__double_as_longlong(a) < 0 ? a : b) : b < a ? b : a;
}
template <class F> FN F relu(F x) { return x > 0 || x != x ? x : (F)0; }
template <class F> FN F sign_real(F x) { return x > 0 ? (F)1 : x < 0 ? (F)-1 : x == 0 ? (F)0 : x; }
FN f32 sigmoid(f32 x) {
  f32 e = expf(-fabsf(x));
  return x >= 0 ? 1.0f / (1.0f + e) : e / (1.0f + e);
}
FN f64 sigmoid(f64 x) {
  f64 e = exp(-fabs(x));
  return x >= 0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
}
FN f32 softplus(f32 x) { return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x)); }
FN f64 softplus(f64 x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
#ifndef TILE_HOST_EMULATION
FN f32 near_reciprocal(f32 x) { f32 r; asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
FN f32 near_exp2(f32 x) { f32 r; asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
#else
FN f32 near_reciprocal(f32 x) { return 1.0f / x; }
FN f32 near_exp2(f32 x) { return exp2f(x); }
#endif
FN f32 gelu(f32 x) {
  f32 a = fabsf(x);
  a = a > 14.5f ? 14.5f : a;
  f32 s = near_reciprocal(fmaf(a, 0.35f, 1.0f));
  f32 q = fmaf(s, -0.0291580297f, 0.144031614f);
  q = fmaf(s, q, -0.255840421f);
  q = fmaf(s, q, 0.159321278f);
  q = fmaf(s, q, -0.0232134070f);
  q = fmaf(s, q, 0.105552934f);
  q = fmaf(s, q, 0.119821183f);
  q = fmaf(s, q, 0.139863521f);
  q = fmaf(s, q, 0.139621302f) * s * a;
  f32 h = a * a, y = h * -0.721347511f;
  f32 rest = fmaf(h, -0.721347511f, -y) + fmaf(h, -9.62981495e-9f, fmaf(a, a, -h) * -0.721347511f);
  f32 tail = fmaf(q, rest * 0.693147182f, q) * near_exp2(y);
  return x >= 0.0f ? x - tail : -tail;
}
FN f64 gelu(f64 x) {
  f64 c = -0.70710678118654752440, t = x * c, d = fma(x, c, -t) + x * 4.8336466567264567e-17;
  f64 r = erfc(t);
  if (t > 0.5 && t < 40.0) r = fma(-2.0 * t * d, r, r);
  return t > 40.0 ? -0.0 : 0.5 * x * r;
}
)";

constexpr std::string_view kClusters = R"(#ifndef TILE_HOST_EMULATION
FN int cluster_block() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return (int)r;
}
template <class T> FN T* in_block(T* p, int block) {
  u64 r;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(r) : "l"((u64)p), "r"(block));
  return (T*)r;
}
FN u8* own_memory(u8* p) { return p; }
FN void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
#else
using tile_emulation::cluster_barrier;
using tile_emulation::cluster_block;
using tile_emulation::in_block;
using tile_emulation::own_memory;
#endif
)";

// The emulation makes copies as late as it may.
constexpr std::string_view kCopies = R"(#ifndef TILE_HOST_EMULATION
template <int bytes> FN void copy_later(void* to, const void* from) {
#if __CUDA_ARCH__ >= 800
  const u32 at = (u32)__cvta_generic_to_shared(to);
  if constexpr (bytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < bytes; i += 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at + i), "l"((const u8*)from + i) : "memory");
    }
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(bytes) : "memory");
  }
#else
#pragma unroll
  for (int i = 0; i < bytes; i += 4) *(u32*)((u8*)to + i) = *(const u32*)((const u8*)from + i);
#endif
}
template <int pending> FN void copy_barrier() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;\ncp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
  __syncthreads();
}
#else
using tile_emulation::copy_barrier;
using tile_emulation::copy_later;
#endif
)";

}  // namespace

std::string_view copy_prelude() { return kCopies; }

std::string_view cluster_prelude() { return kClusters; }

std::string_view prelude() {
  static const std::string text = std::string(kTypes) + std::string(kNarrowFloats) +
                                  std::string(kIntegers) + std::string(kReals);
  return text;
}

}  // namespace tile::cuda
