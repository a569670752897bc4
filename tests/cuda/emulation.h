// Included before the text of printed SIMT kernels, which is then compiled as C++ for the host and
// run by tests/cuda/machine.h. It is compiled with -fsanitize=thread, whose calls before each
// access to memory come to the machine instead of the sanitizer's library: they find races.
#pragma once

#define TILE_HOST_EMULATION 1

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <utility>
#include <vector>

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
void fault(const char* what);  // of the kernel, which the test then reports
void block_barrier();
void cluster_barrier();
void warp_barrier();
unsigned current_lane();
uint64_t exchange(uint64_t value, unsigned source);  // what that lane of the warp gives
const uint64_t* meet(uint64_t value);                // what each lane gives, until they part
void part();
void copy_later(void* to, const void* from, size_t bytes);
void commit_copies();
void wait_for_copies(int pending);
void finish_copies(int pending);                                   // both
void gather(const unsigned* mine, unsigned count, unsigned* all);  // lane l: all[l * count]

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

// What backends/cuda/matrix/matrix_mma.cpp has as instructions: fragments lie in the lanes'
// registers as the PTX ISA's figures say. An address is the distance from shared memory's begin.
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned mma_shared_address(const void* p) {
  return static_cast<unsigned>(static_cast<const unsigned char*>(p) - shared_memory);
}
inline void copies_commit() { tile_emulation::commit_copies(); }
template <int pending>
void copies_wait() {
  tile_emulation::wait_for_copies(pending);
}
template <int bytes>
void copy_async(unsigned to, const void* from, int take) {
  unsigned char* const target = shared_memory + to;
  for (int i = take; i < bytes; ++i) target[i] = 0;
  int at = 0;
  for (int size = bytes; size > 0; size /= 2) {
    if (take - at < size) continue;
    tile_emulation::copy_later(target + at, static_cast<const unsigned char*>(from) + at, size);
    at += size;
  }
}
template <class T>
T load_shared(unsigned from) {
  return *reinterpret_cast<const T*>(shared_memory + from);
}
inline void store_words(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d) {
  const unsigned words[4] = {a, b, c, d};
  for (unsigned i = 0; i < 4; ++i)
    *reinterpret_cast<unsigned*>(shared_memory + to + 4 * i) = words[i];
}
// Lane 8 i + j gives the address of row j of matrix i.
inline void load_matrices(unsigned (&r)[4], unsigned from) {
  const unsigned lane = tile_emulation::current_lane();
  const uint64_t* rows = tile_emulation::meet(from);
  for (unsigned i = 0; i < 4; ++i) {
    r[i] = load_shared<unsigned>(static_cast<unsigned>(rows[i * 8 + lane / 4]) + lane % 4 * 4);
  }
  tile_emulation::part();
}
inline void load_matrices_transposed(unsigned (&r)[4], unsigned from) {
  const unsigned lane = tile_emulation::current_lane();
  const uint64_t* rows = tile_emulation::meet(from);
  for (unsigned i = 0; i < 4; ++i) {
    unsigned pair[2];
    for (unsigned j = 0; j < 2; ++j) {
      const auto row = static_cast<unsigned>(rows[i * 8 + lane % 4 * 2 + j]);
      pair[j] = load_shared<unsigned short>(row + lane / 4 * 2);
    }
    r[i] = pair[0] | pair[1] << 16;
  }
  tile_emulation::part();
}
template <int first, int second>
void load_words(unsigned (&r)[4], unsigned from) {
  for (int i = 0; i < 4; ++i) r[i] = load_shared<unsigned>(from + i % 2 * first + i / 2 * second);
}
template <int first, int second>
void load_doubles(double (&r)[4], unsigned from) {
  for (int i = 0; i < 4; ++i) r[i] = load_shared<double>(from + i % 2 * first + i / 2 * second);
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned order) {
  const unsigned long long bytes = a | static_cast<unsigned long long>(b) << 32;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) r |= (bytes >> (order >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return r;
}

namespace tile_emulation {

// Sixteen rows of `a` and eight columns of `b`: lane 4 r + q has of row r, and of row r + 8, the
// q-th register of the first half of k and of the second, and likewise of a column. `add` adds the
// products of two registers' elements to a sum.
template <class Sum, class Register, class Add>
void multiply_fragments(Sum (&sum)[4], const Register (&a)[4], Register b0, Register b1,
                        const Add& add) {
  const Register own[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const unsigned lane = current_lane();
  const uint64_t* lanes = meet(reinterpret_cast<uint64_t>(own));
  for (int half = 0; half < 2; ++half) {
    for (unsigned q = 0; q < 4; ++q) {
      const auto* row = reinterpret_cast<const Register*>(lanes[lane / 4 * 4 + q]);
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned column = lane % 4 * 2 + i % 2;
        const auto* other = reinterpret_cast<const Register*>(lanes[column * 4 + q]);
        add(sum[i], row[half * 2 + i / 2], other[4 + half]);
      }
    }
  }
  part();
}

template <class Value>
void multiply_pairs(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                    const Value& value) {
  multiply_fragments(sum, a, b0, b1, [&](float& s, unsigned x, unsigned y) {
    for (int i = 0; i < 32; i += 16) s += value(x >> i & 0xffff) * value(y >> i & 0xffff);
  });
}

template <class A, class B>
void multiply_bytes(int (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  multiply_fragments(sum, a, b0, b1, [](int& s, unsigned x, unsigned y) {
    for (int i = 0; i < 32; i += 8) s += static_cast<A>(x >> i) * static_cast<B>(y >> i);
  });
}

}  // namespace tile_emulation

// Two f8 as two f16. A half with the exponent and mantissa of a number of e4m3 is 2^-8 of it.
inline unsigned e4m3_pair(unsigned both) {
  unsigned pair = 0;
  for (unsigned i = 0; i < 2; ++i) {
    const unsigned bits = both >> (8 * i) & 0xff, magnitude = bits & 0x7f;
    const auto small = static_cast<unsigned short>(magnitude << 7);
    const float value = tile_emulation::half_value(small) * 256;
    const unsigned half = magnitude == 0x7f ? 0x7e00U : tile_emulation::half_bits(value);
    pair |= (half | (bits & 0x80) << 8) << (16 * i);
  }
  return pair;
}
inline void mma_f16(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  tile_emulation::multiply_pairs(sum, a, b0, b1, [](unsigned bits) {
    return tile_emulation::half_value(static_cast<unsigned short>(bits));
  });
}
inline void mma_bf16(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  tile_emulation::multiply_pairs(sum, a, b0, b1,
                                 [](unsigned bits) { return __uint_as_float(bits << 16); });
}
inline void mma_tf32(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  constexpr unsigned kUsed = 0xffffe000U;
  tile_emulation::multiply_fragments(sum, a, b0, b1, [](float& s, unsigned x, unsigned y) {
    s += __uint_as_float(x & kUsed) * __uint_as_float(y & kUsed);
  });
}
inline void mma_f64(double (&sum)[4], const double (&a)[4], double b0, double b1) {
  tile_emulation::multiply_fragments(sum, a, b0, b1,
                                     [](double& s, double x, double y) { s = std::fma(x, y, s); });
}
inline void mma_s8_s8(int (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  tile_emulation::multiply_bytes<signed char, signed char>(sum, a, b0, b1);
}
inline void mma_s8_u8(int (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  tile_emulation::multiply_bytes<signed char, unsigned char>(sum, a, b0, b1);
}
inline void mma_u8_s8(int (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  tile_emulation::multiply_bytes<unsigned char, signed char>(sum, a, b0, b1);
}
inline void mma_u8_u8(int (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  tile_emulation::multiply_bytes<unsigned char, unsigned char>(sum, a, b0, b1);
}

// The same of backends/cuda/matrix/stream_source.cpp, and factors that descriptors say where they
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
// Products that a thread has issued (wgmma) happen when it waits for them, not before. Until then
// their sums hold no number, and neither sums nor first factors in registers may change.
class Products {
 public:
  using Run = std::function<void(float* sum)>;

  void issue(float* sum, unsigned registers, std::vector<const unsigned*> factors, Run run) {
    Sum& s = sums_[sum];
    if (s.running++ == 0) {
      s.value.assign(sum, sum + registers);
      std::memset(sum, kNoNumber, registers * sizeof(float));
    }
    Product p{sum, std::move(run), std::move(factors), {}};
    for (const unsigned* factor : p.factors) p.words.push_back(*factor);
    group_.push_back(std::move(p));
  }
  void commit() {
    groups_.push_back(std::move(group_));
    group_.clear();
  }
  bool any() const { return !groups_.empty() || !group_.empty(); }
  void wait(size_t running) {
    while (groups_.size() > running) {
      for (const Product& p : groups_.front()) finish(p);
      groups_.erase(groups_.begin());
    }
  }

 private:
  static constexpr int kNoNumber = 0xff;
  struct Product {
    float* sum;
    Run run;
    std::vector<const unsigned*> factors;
    std::vector<unsigned> words;
  };
  struct Sum {
    std::vector<float> value;
    int running = 0;
  };

  void finish(const Product& p) {
    Sum& s = sums_[p.sum];
    const auto* bytes = reinterpret_cast<const unsigned char*>(p.sum);
    for (size_t b = 0; b < s.value.size() * sizeof(float); ++b) {
      if (bytes[b] != kNoNumber) {
        fault("a sum is written while a product adds to it");
        break;
      }
    }
    for (size_t f = 0; f < p.factors.size(); ++f) {
      if (*p.factors[f] != p.words[f]) fault("a factor in registers is written while it is read");
    }
    p.run(s.value.data());
    if (--s.running > 0) return;
    std::memcpy(p.sum, s.value.data(), s.value.size() * sizeof(float));
    sums_.erase(p.sum);
  }

  std::map<float*, Sum> sums_;
  std::vector<Product> group_;
  std::vector<std::vector<Product>> groups_;
};
inline std::vector<Products> products_of_threads(1024);  // of a block
inline Products& products() { return products_of_threads[threadIdx.x]; }

template <class Value>
void multiply_group(Value value, float* sum, int columns, unsigned long long a,
                    unsigned long long b, int keep) {
  auto run = [=](float* to) {
    Described x(a), y(b);
    unsigned warp = threadIdx.x / 32 % 4;
    multiply_lane(
        to, columns, keep,
        [&](unsigned row, unsigned k) { return value(x.along_k(16 * warp + row, k)); },
        [&](unsigned column, unsigned k) { return value(y.along_k(column, k)); });
  };
  products().issue(sum, static_cast<unsigned>(columns) / 2, {}, run);
}
template <class Value>
void multiply_group(Value value, float* sum, int columns, std::vector<const unsigned*> a,
                    unsigned long long b, int keep) {
  auto run = [=](float* to) {
    Described y(b);
    const unsigned mine[4] = {*a[0], *a[1], *a[2], *a[3]};
    unsigned all[32 * 4];
    gather(mine, 4, all);
    multiply_lane(
        to, columns, keep,
        [&](unsigned row, unsigned k) { return value(fragment_element(all, 4, row, k)); },
        [&](unsigned column, unsigned k) { return value(y.across_k(column, k)); });
  };
  products().issue(sum, static_cast<unsigned>(columns) / 2, a, run);
}

inline float power_of_two(float x) { return std::exp2(x); }
inline float rounded_product(float a, float b) { return a * b; }

}  // namespace tile_emulation::stream

// After a launch: whether some thread has issued products that it has not waited for.
extern "C" __attribute__((used, visibility("default"))) inline bool tile_products_run_on() {
  bool any = false;
  for (tile_emulation::stream::Products& products : tile_emulation::stream::products_of_threads) {
    any = any || products.any();
    products = {};
  }
  return any;
}

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
