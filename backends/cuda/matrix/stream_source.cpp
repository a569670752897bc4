#include "backends/cuda/matrix/stream_source.h"

#include "backends/cuda/matrix/text_pieces.h"

namespace tile::cuda {
namespace {

// Texts may stand several times in one translation unit of the tests.
//
// exp_distance: exp(a - b) (exp_scaled: exp(a * times - b)) by one rounding of the power of two's
// exponent, but for that of b's part; exp_near: the same where b is not far; exp_between: of two
// such parts, so that factors fit what exp_distance has made before. What is b's alone is a pair,
// made once for many cells. From 2^27 on the rounding of b's part could exceed the exponents
// that 16 bits have, so that a row whose scores are all masked (-1e9, -1e30) would have infinite
// weights; but there neighbours are at least 8 apart, and the plain difference tells the equal from
// the rest. By a power of two products are exact: no rounding tells those neighbours apart.
//
// stream_quotient: within two units in the last place. Divisors belong to rows or columns, so that
// the reciprocal is computed once for many quotients; the scale (2^-64 above 2^125, 2^64 below
// 2^-125) keeps it in the range of normal numbers.
constexpr const char* kPrelude = R"(
#ifndef TILE_STREAM
#define TILE_STREAM
#ifndef TILE_HOST_EMULATION
FN u32 stream_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
FN void stream_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending> FN void stream_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
template <int bytes> FN void stream_copy(u32 to, const void* from, int take) {
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(take)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(bytes),
                 "r"(take)
                 : "memory");
  }
}
FN void stream_store(u32 to, const u32 (&w)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(w[0]), "r"(w[1]),
               "r"(w[2]), "r"(w[3])
               : "memory");
}
FN void stream_load(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
FN void stream_load_across(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
FN void stream_multiply(bf16, float* sum, const u32* a, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
FN void stream_multiply(f16, float* sum, const u32* a, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
FN u32 stream_pair(bf16, f32 low, f32 high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
FN u32 stream_pair(f16, f32 low, f32 high) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
FN void stream_pin(int& x) { asm volatile("" : "+r"(x)); }
// A choice that never becomes a jump, behind which all would be there twice.
FN f32 far_or_near(f32 x, f32 far, f32 near) {
  f32 r;
  asm("{\n.reg .pred p;\nsetp.ge.f32 p, %1, 0f4D000000;\nselp.f32 %0, %2, %3, p;\n}"
      : "=f"(r)
      : "f"(fabsf(x)), "f"(far), "f"(near));
  return r;
}
FN bool stream_any(bool x) { return __any_sync(0xffffffffu, x); }
FN f32 power_of_two(f32 x) {
  f32 r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
FN f32 rounded_product(f32 a, f32 b) { return __fmul_rn(a, b); }
FN f32 stream_reciprocal(f32 x) {
  f32 r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
#else
using namespace tile_emulation::stream;
FN void stream_pin(int&) {}
FN f32 far_or_near(f32 x, f32 far, f32 near) { return fabsf(x) >= 134217728.0f ? far : near; }
FN bool stream_any(bool x) {
  u32 any = x;
  for (int apart = 1; apart < 32; apart *= 2) any |= __shfl_xor_sync(0xffffffffu, any, apart);
  return any != 0;
}
FN f32 stream_reciprocal(f32 x) { return 1 / x; }
FN u32 stream_pair(bf16, f32 low, f32 high) {
  return to_bf16(low).bits | (u32)to_bf16(high).bits << 16;
}
FN u32 stream_pair(f16, f32 low, f32 high) {
  return to_f16(low).bits | (u32)to_f16(high).bits << 16;
}
FN void stream_multiply(bf16, float* sum, const u32* a, u32 b0, u32 b1) {
  multiply_fragments([](u16 bits) { return from(bf16{bits}); }, sum, a, b0, b1);
}
FN void stream_multiply(f16, float* sum, const u32* a, u32 b0, u32 b1) {
  multiply_fragments([](u16 bits) { return from(f16{bits}); }, sum, a, b0, b1);
}
#endif
FN bool is_far(f32 x) { return fabsf(x) >= 134217728.0f; }
FN bool is_power_of_two(f32 x) { return (__float_as_uint(x) & 0x7fffffu) == 0; }
struct alignas(8) StreamPair { f32 times, then; };
FN bool is_odd_divisor(f32 b) {
  return !(fabsf(b) <= 4.25352959e37f && fabsf(b) >= 2.35098870e-38f);
}
FN StreamPair stream_divisor(f32 b) {
  const f32 magnitude = fabsf(b);
  const f32 scale = magnitude > 4.25352959e37f    ? 5.42101086e-20f
                    : magnitude < 2.35098870e-38f ? 1.84467441e19f
                                                  : 1.0f;
  return {stream_reciprocal(rounded_product(b, scale)), scale};
}
FN f32 stream_quotient(f32 a, StreamPair b) {
  return rounded_product(rounded_product(a, b.times), b.then);
}
FN f32 stream_quotient(f32 a, f32 b) { return stream_quotient(a, stream_divisor(b)); }
FN f32 usual_quotient(f32 a, StreamPair b) { return rounded_product(a, b.times); }
FN f32 usual_quotient(f32 a, f32 b) { return rounded_product(a, stream_reciprocal(b)); }
FN StreamPair stream_subtrahend(f32 b) {
  const f32 log2_e = far_or_near(b, 1.0f, 1.44269504f);
  return {log2_e, rounded_product(b, log2_e)};
}
FN f32 exp_distance(f32 a, StreamPair b) { return power_of_two(fmaf(a, b.times, -b.then)); }
FN f32 exp_distance(f32 a, f32 b) { return exp_distance(a, stream_subtrahend(b)); }
FN f32 exp_scaled(f32 a, f32 times, StreamPair b) {
  if (is_power_of_two(times)) return power_of_two(fmaf(a, times * b.times, -b.then));
  return exp_distance(rounded_product(a, times), b);
}
FN f32 exp_scaled(f32 a, f32 times, f32 b) { return exp_scaled(a, times, stream_subtrahend(b)); }
FN f32 exp_near(f32 a, f32 times, StreamPair b) {
  return power_of_two(fmaf(a, rounded_product(times, 1.44269504f), -b.then));
}
FN f32 exp_near(f32 a, f32 times, f32 b) {
  const f32 log2_e = 1.44269504f;
  return power_of_two(fmaf(a, rounded_product(times, log2_e), -rounded_product(b, log2_e)));
}
// Without jumps: what comes before a loop over cells is scheduled with it.
FN f32 exp_between(f32 a, f32 b) {
  const f32 log2_e = 1.44269504f, then = rounded_product(b, log2_e);
  const f32 near = far_or_near(a, fmaf(a, log2_e, -then), rounded_product(a, log2_e) - then);
  return power_of_two(far_or_near(b, a - b, near));
}
FN f32 largest_of(const f32 (&x)[4]) { return largest(largest(x[0], x[1]), largest(x[2], x[3])); }
FN f32 sum_of(const f32 (&x)[4]) { return (x[0] + x[1]) + (x[2] + x[3]); }
// Of the four lanes that have a row: each other's neighbours and those `apart` from them.
template <int apart = 2> FN f32 stream_largest(f32 x) {
  x = largest(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return largest(x, __shfl_xor_sync(0xffffffffu, x, apart));
}
FN f32 stream_held(f32 x) { return __shfl_xor_sync(0xffffffffu, x, 0); }
template <int apart = 2> FN f32 stream_sum(f32 x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, apart);
}
#endif
)";

constexpr const char* kGroupPrelude = R"(
#ifndef TILE_STREAM_GROUPS
#define TILE_STREAM_GROUPS
#ifndef TILE_HOST_EMULATION
FN void group_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FN void group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending> FN void group_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
// ptxas moves a wait's first try ahead of what stands before it. That does no harm where the try
// does not suspend the warp; try_wait does.
FN bool barrier_passed(unsigned barrier, unsigned parity) {
  u32 passed;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(passed)
      : "r"(barrier), "r"(parity)
      : "memory");
  return passed != 0;
}
template <int count> FN void group_settle(float (&r)[count]) {
  #pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(r[i])::"memory");
}
template <int count> FN void group_settle(u32 (&r)[count]) {
  #pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(r[i])::"memory");
}
FN void copies_visible() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
template <int count> FN void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count> FN void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
#else
FN void group_fence() {}
FN void group_commit() { products().commit(); }
template <int pending> FN void group_wait() { products().wait(pending); }
FN bool barrier_passed(unsigned, unsigned) { return false; }  // then it is waited for
template <int count> FN void group_settle(float (&)[count]) {}
template <int count> FN void group_settle(u32 (&)[count]) {}
FN void copies_visible() {}
template <int count> FN void fewer_registers() {}
template <int count> FN void more_registers() {}
#endif
#endif
)";

// wgmma's functions of one width of sums and one type, with what TextPieces put in.
constexpr const char* kGroupFunctions = R"(
#ifndef TILE_$name
#define TILE_$name
#ifndef TILE_HOST_EMULATION
FN void ${name}_shared(float (&sum)[$registers], u64 a, u64 b, int keep) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %$keep, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n${columns}k16.f32.$type.$type "
      "$sums, %$first, %$second, p, 1, 1, 0, 0;\n}"
      : $outputs
      : "l"(a), "l"(b), "r"(keep));
}
FN void ${name}_first(float (&sum)[$registers], u64 a, u64 b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n${columns}k16.f32.$type.$type "
      "$sums, %$first, %$second, p, 1, 1, 0, 0;\n}"
      : $results
      : "l"(a), "l"(b));
}
FN void ${name}_registers(float (&sum)[$registers], u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int keep) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %$keep_value, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n${columns}k16.f32.$type.$type "
      "$sums, $words, %$value, p, 1, 1, 1;\n}"
      : $outputs
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep));
}
#else
FN void ${name}_shared(float (&sum)[$registers], u64 a, u64 b, int keep) {
  multiply_group([](u16 bits) { return from($type{bits}); }, sum, $columns, a, b, keep);
}
FN void ${name}_first(float (&sum)[$registers], u64 a, u64 b) { ${name}_shared(sum, a, b, 0); }
FN void ${name}_registers(float (&sum)[$registers], const u32& a0, const u32& a1, const u32& a2,
                          const u32& a3, u64 b, int keep) {
  multiply_group([](u16 bits) { return from($type{bits}); }, sum, $columns, {&a0, &a1, &a2, &a3},
                 b, keep);
}
#endif
#endif
)";

// "{%0, %1, …}"
std::string registers(int64_t from, int64_t count) {
  std::string list = "{";
  for (int64_t r = 0; r < count; ++r) {
    list += (r == 0 ? "%" : ", %") + std::to_string(from + r);
  }
  return list + "}";
}

}  // namespace

std::string stream_prelude() { return kPrelude; }
std::string stream_group_prelude() { return kGroupPrelude; }

uint64_t stream_descriptor(bool along_k, int64_t lines) {
  uint64_t leading = along_k ? 1 : static_cast<uint64_t>(lines * 128) >> 4;
  return uint64_t{1} << 62 | uint64_t{1024 >> 4} << 32 | leading << 16;
}

std::string stream_group_functions(const std::string& name, int64_t columns,
                                   const std::string& type) {
  int64_t sums = columns / 2;
  // Of the first product the old sums are no operands.
  auto listed = [&](const std::string& constraint) {
    std::string list;
    for (int64_t r = 0; r < sums; ++r) {
      list += (r == 0 ? "\"" : ", \"") + constraint + "\"(sum[" + std::to_string(r) + "])";
    }
    return list;
  };
  TextPieces pieces;
  pieces.set("name", name);
  pieces.set("columns", columns);
  pieces.set("registers", sums);
  pieces.set("type", type);
  pieces.set("sums", registers(0, sums));
  pieces.set("outputs", listed("+f"));
  pieces.set("results", listed("=f"));
  pieces.set("first", sums);
  pieces.set("second", sums + 1);
  pieces.set("keep", sums + 2);
  pieces.set("words", registers(sums, 4));
  pieces.set("value", sums + 4);
  pieces.set("keep_value", sums + 5);
  return pieces.fill(kGroupFunctions);
}

}  // namespace tile::cuda
