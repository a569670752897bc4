// Functions that products on tensor cores by mma call: copies to shared memory, loads of fragments,
// instructions, and conversions in registers.
#include "backends/cuda/matrix/matrix_mma.h"

namespace tile::cuda {

namespace {

constexpr const char* kMultiply = R"((SUM (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8kDEPTH.row.col.TYPES {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+REGISTER"(sum[0]), "+REGISTER"(sum[1]), "+REGISTER"(sum[2]), "+REGISTER"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
)";

// The emulation of the tests has functions of its own in place of instructions.
constexpr const char* kMemory = R"(
#ifndef TILE_HOST_EMULATION
FN unsigned mma_shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
FN void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending> FN void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
template <int bytes> FN void copy_async(unsigned to, const void* from, int take) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(bytes),
               "r"(take)
               : "memory");
}
FN void store_words(unsigned to, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
FN u32 e4m3_pair(u32 both) {  // sm_89 up
  u32 r;
  asm("{.reg .b16 pair; cvt.u16.u32 pair, %1; cvt.rn.f16x2.e4m3x2 %0, pair;}" : "=r"(r) : "r"(both));
  return r;
}
FN void load_matrices(u32 (&r)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
FN void load_matrices_transposed(u32 (&r)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
template <int first, int second> FN void load_words(u32 (&r)[4], unsigned from) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    asm volatile("ld.shared.b32 %0, [%1];"
                 : "=r"(r[i])
                 : "r"(from + i % 2 * first + i / 2 * second)
                 : "memory");
  }
}
template <int first, int second> FN void load_doubles(f64 (&r)[4], unsigned from) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    asm volatile("ld.shared.f64 %0, [%1];"
                 : "=d"(r[i])
                 : "r"(from + i % 2 * first + i / 2 * second)
                 : "memory");
  }
}
FN void mma_f64(f64 (&sum)[4], const f64 (&a)[4], f64 b0, f64 b1) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
               : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b0), "d"(b1));
#else
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(sum[i % 2 * 2]), "+d"(sum[i % 2 * 2 + 1])
                 : "d"(a[i]), "d"(i < 2 ? b0 : b1));
  }
#endif
}
#endif
// Lines of bytes hold one k each: a lane gets, of two matrices, two k of two neighbouring rows
// each, and `order` says in which order those k stand: a fragment's words hold four of one row.
template <bool rows_first> FN void load_bytes_transposed(u32 (&r)[4], unsigned from, u32 order) {
  u32 pairs[4];
  load_matrices_transposed(pairs, from);
  const u32 even_low = __byte_perm(pairs[0], pairs[1], order);
  const u32 odd_low = __byte_perm(pairs[0], pairs[1], order + 0x1111u);
  const u32 even_high = __byte_perm(pairs[2], pairs[3], order);
  const u32 odd_high = __byte_perm(pairs[2], pairs[3], order + 0x1111u);
  r[0] = even_low;
  r[1] = rows_first ? odd_low : even_high;
  r[2] = rows_first ? even_high : odd_low;
  r[3] = odd_high;
}
// Four f8 of a word become two pairs of f16, which has all of their values.
FN void widen_e5m2(const u32 (&words)[4], u32 (&low)[4], u32 (&high)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    low[i] = __byte_perm(words[i], 0u, 0x1404u);
    high[i] = __byte_perm(words[i], 0u, 0x3424u);
  }
}
FN void widen_e4m3(const u32 (&words)[4], u32 (&low)[4], u32 (&high)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    low[i] = e4m3_pair(words[i] & 0xffffu);
    high[i] = e4m3_pair(words[i] >> 16);
  }
}
// To the nearest, ties away from zero: mma ignores the 13 lowest bits.
FN void round_words(u32 (&r)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (fabsf(__uint_as_float(r[i])) < __uint_as_float(0x7f800000u)) r[i] += 0x1000u;
  }
}
// What is left of a NaN is a NaN; what is left of an infinity too.
FN void split_words(u32 (&r)[4], u32 (&rest)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float value = __uint_as_float(r[i]);
    r[i] = (r[i] + 0x1000u) & 0xffffe000u;
    rest[i] = __float_as_uint(value - __uint_as_float(r[i]));
  }
}
)";

std::string multiply_function(const std::string& name, const std::string& depth,
                              const std::string& types) {
  bool bytes = types.starts_with("s32");
  std::string text = kMultiply;
  for (auto [part, value] : {std::pair<std::string, std::string>{"TYPES", types},
                             {"DEPTH", depth},
                             {"SUM", bytes ? "int" : "float"},
                             {"REGISTER", bytes ? "r" : "f"}}) {
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part)) {
      text.replace(at, part.size(), value);
    }
  }
  return "FN void mma_" + name + text;
}

}  // namespace

std::string mma_prelude() {
  std::string text = kMemory;
  text += "#ifndef TILE_HOST_EMULATION\n";
  text += multiply_function("f16", "16", "f32.f16.f16.f32");
  text += multiply_function("bf16", "16", "f32.bf16.bf16.f32");
  text += multiply_function("tf32", "8", "f32.tf32.tf32.f32");
  for (const char* a : {"s8", "u8"}) {
    for (std::string b : {"s8", "u8"}) {
      text += multiply_function(a + ("_" + b), "32", std::string("s32.") + a + "." + b + ".s32");
    }
  }
  return text + "#endif\n";
}

}  // namespace tile::cuda
