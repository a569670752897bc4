// The backend as the runtime uses it: objects, targets, threads, errors, sorting.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>

#include "backends/cpu/cpu_backend.h"
#include "core/support/diagnostic.h"
#include "tests/cpu/nests.h"

namespace tile::cpu {
namespace {

const char* const kSum = R"(
nest sum
argument X: f32 [4096] strides [1]
argument Z: f32 [4096] strides [1] written
scratch s: f32 [16] strides [1]
parallel i from [0] extent [256] grain 4 {
  alloc s
  vector l from [0] extent [16] width 16 {
    assign s[l] (X[16*i + l]) { %0:f32 = load 0; %1:f32 = add %0 %0; yield %1 }
  }
  vector m from [0] extent [16] width 16 {
    assign Z[16*i + m] (s[15 - m]) { %0:f32 = load 0; yield %0 }
  }
}
)";

std::vector<float> numbers() {
  std::vector<float> x(4096);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  return x;
}

// Whether the code of kSum does what it should.
bool works(Backend& backend, const Code& code, int threads = 0) {
  std::vector<float> x = numbers(), z(4096);
  void* pointers[] = {x.data(), z.data()};
  LaunchOptions options;
  options.threads = threads;
  backend.launch(code, pointers, {}, options);
  for (size_t i = 0; i < z.size(); ++i) {
    if (z[i] != 2 * x[i / 16 * 16 + 15 - i % 16]) return false;
  }
  return true;
}

TEST(CpuBackend, ObjectsLoadAgain) {
  auto backend = shared_backend();
  nest::Nest nest = parse(kSum);
  auto code = backend->compile(nest, backend->target());
  EXPECT_TRUE(works(*backend, *code));
  std::vector<std::byte> object(code->object().begin(), code->object().end());
  code.reset();
  auto again = backend->load(nest, backend->target(), object);
  ASSERT_NE(again, nullptr);
  EXPECT_TRUE(works(*backend, *again));
}

TEST(CpuBackend, ObjectsAreTheSameEveryTime) {
  auto backend = shared_backend();
  nest::Nest nest = parse(kSum);
  auto a = backend->compile(nest, backend->target()), b = backend->compile(nest, backend->target());
  EXPECT_TRUE(std::ranges::equal(a->object(), b->object()));
}

// The passes that made a kernel make the next ones, up to some number.
TEST(CpuBackend, ObjectsDoNotDependOnWhatWasCompiledBefore) {
  auto backend = shared_backend();
  const nest::Nest nests[] = {parse(kSum), parse(R"(
nest exponentials
argument X: f32 [4096] strides [1]
argument Z: f32 [4096] strides [1] written
serial i from [0] extent [256] {
  vector l from [0] extent [13] width 16 {
    assign Z[16*i + l] (X[16*i + l]) { %0:f32 = load 0; %1:f32 = exp %0; yield %1 }
  }
}
)")};
  std::shared_ptr<const Code> first[] = {backend->compile(nests[0], backend->target()),
                                         backend->compile(nests[1], backend->target())};
  for (size_t i = 0; i < 150; ++i) {
    auto code = backend->compile(nests[i % 2], backend->target());
    ASSERT_TRUE(std::ranges::equal(code->object(), first[i % 2]->object())) << i;
  }
  EXPECT_TRUE(works(*backend, *first[0]));
}

TEST(CpuBackend, WhatIsNoObjectDoesNotLoad) {
  auto backend = shared_backend();
  nest::Nest nest = parse(kSum);
  std::vector<std::byte> garbage(1000, std::byte{0x5a});
  EXPECT_EQ(backend->load(nest, backend->target(), garbage), nullptr);
  EXPECT_EQ(backend->load(nest, backend->target(), {}), nullptr);
  auto code = backend->compile(nest, backend->target());
  EXPECT_EQ(backend->load(nest, backend->target(), code->object().first(64)), nullptr);
  // An object of another nest lacks this one's functions.
  auto other = backend->compile(parse("nest nothing\n"), backend->target());
  EXPECT_EQ(backend->load(nest, backend->target(), other->object()), nullptr);
}

// Each of at least one line of 64 bytes.
TEST(CpuBackend, TheFirstCacheHasWays) {
  Target target = shared_backend()->target();
  EXPECT_GE(target.core.l1_ways, 1);
  EXPECT_LE(64 * target.core.l1_ways, static_cast<double>(target.l1_bytes));
}

TEST(CpuBackend, LaunchedFromSeveralThreads) {
  auto backend = shared_backend();
  auto code = backend->compile(parse(kSum), backend->target());
  std::vector<std::thread> threads;
  std::vector<int> good(4);
  for (size_t t = 0; t < good.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) good[t] += works(*backend, *code, static_cast<int>(t)) ? 1 : 0;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(good, std::vector<int>(4, 50));
}

TEST(CpuBackend, CompiledInSeveralThreads) {
  auto backend = shared_backend();
  nest::Nest nest = parse(kSum);
  std::vector<std::thread> threads;
  std::vector<int> good(3);
  for (size_t t = 0; t < good.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        auto code = backend->compile(nest, backend->target());
        good[t] += works(*backend, *code) ? 1 : 0;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(good, std::vector<int>(3, 5));
}

int64_t resident_bytes() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * 4096;
}

TEST(CpuBackend, CodeThatDiesLeavesNothing) {
  auto backend = shared_backend();
  nest::Nest nest = parse(R"(
nest tiny
argument Z: f32 [1] strides [1] written
assign Z[0] () { %0:f32 = real 1.0; yield %0 }
)");
  auto code = backend->compile(nest, backend->target());
  std::vector<std::byte> object(code->object().begin(), code->object().end());
  auto load = [&](int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_NE(backend->load(nest, backend->target(), object), nullptr);
    }
  };
  load(200);
  int64_t before = resident_bytes();
  load(1000);
  EXPECT_LT(resident_bytes() - before, 4 << 20);
}

TEST(CpuBackend, CodeOutlivesTheCaller) {
  std::shared_ptr<const Code> code;
  {
    auto backend = shared_backend();
    code = backend->compile(parse(kSum), backend->target());
  }
  EXPECT_TRUE(works(*shared_backend(), *code));
}

TEST(CpuBackend, Targets) {
  auto backend = shared_backend();
  const Target& host = backend->target();
  EXPECT_EQ(host.device, "cpu");
  EXPECT_GE(host.threads, 1);
  EXPECT_GE(host.l1_bytes, 8 << 10);
  EXPECT_GE(host.l2_bytes, host.l1_bytes);
  Target sse = backend->target_named("sse");
  EXPECT_EQ(sse.features, "x86-64-v2");
  EXPECT_EQ(sse.vector_bits, 128);
  EXPECT_EQ(backend->target_named("native").features, host.features);
  EXPECT_THROW(backend->target_named("z80"), Failure);
  Target iterator = host;
  iterator.features = "pentium9";
  EXPECT_THROW(backend->compile(parse(kSum), iterator), Failure);
  EXPECT_NE(backend->identity().find("llvm 19"), std::string::npos);
}

TEST(CpuBackend, LaterStagesAsText) {
  auto backend = shared_backend();
  nest::Nest nest = parse(kSum);
  EXPECT_NE(backend->emit(nest, backend->target(), "llvm").find("define void @entry_0"),
            std::string::npos);
  EXPECT_NE(backend->emit(nest, backend->target(), "asm").find("entry_0:"), std::string::npos);
  EXPECT_THROW(backend->emit(nest, backend->target(), "ptx"), Failure);
}

TEST(CpuBackend, MemoryBeyondAllCountingIsALimit) {
  nest::Nest nest = parse(R"(
nest huge
argument Z: f32 [1] strides [1] written
workspace w: f64 [4611686018427387904, 4] strides [4, 1]
alloc w
assign Z[0] (w[0, 0]) { %0:f64 = load 0; %1:f32 = cast %0; yield %1 }
)");
  try {
    shared_backend()->compile(nest, shared_backend()->target());
    FAIL();
  } catch (const Failure& f) {
    EXPECT_EQ(f.diagnostic().code, "limit");
  }
}

// One row of a register tile: the inner loop is loads and multiply-adds, nothing is spilled.
TEST(CpuBackend, RegisterTilesStayInRegisters) {
  auto backend = shared_backend();
  Target target;
  try {
    target = backend->target_named("avx512");
  } catch (const Failure&) {
    GTEST_SKIP() << "no AVX-512 here";
  }
  std::string text = backend->emit(parse(R"(
nest tile
argument A: f32 [256, 6] strides [6, 1]
argument B: f32 [256, 64] strides [64, 1]
argument C: f32 [6, 64] strides [64, 1] written
registers acc: f32 [6, 64] strides [64, 1]
alloc acc
unrolled i from [0] extent [6] { unrolled j from [0] extent [4] { vector l from [0] extent [16] width 16 {
  assign acc[i, 16*j + l] () { %0:f32 = real 0.0; yield %0 }
} } }
serial k from [0] extent [256] {
  unrolled i1 from [0] extent [6] { unrolled j1 from [0] extent [4] { vector l1 from [0] extent [16] width 16 {
    fma acc[i1, 16*j1 + l1] (A[k, i1], B[k, 16*j1 + l1]) { %0:f32 = load 0; %1:f32 = load 1; yield %0, %1 }
  } } }
}
unrolled i2 from [0] extent [6] { unrolled j2 from [0] extent [4] { vector l2 from [0] extent [16] width 16 {
  assign C[i2, 16*j2 + l2] (acc[i2, 16*j2 + l2]) { %0:f32 = load 0; yield %0 }
} } }
)"),
                                   target, "asm");
  auto count = [&](const std::string& word) {
    int n = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("vfmadd"), 24);
  EXPECT_EQ(count("(%rsp)"), 0);
  EXPECT_EQ(count("vmovups"), 4 + 24);
}

// What the caches cannot hold is all that a kernel touches: then also a result that alone would
// fit.
TEST(CpuBackend, ResultsOfLargeInputsAreStreamed) {
  auto backend = shared_backend();
  auto streams = [&](int64_t rows, int64_t kept) {
    std::string n = std::to_string(rows), k = std::to_string(kept);
    nest::Nest nest =
        parse("nest large\nargument X: f32 [" + n + ", 16] strides [16, 1]\nargument Z: f32 [" + k +
              R"(, 16] strides [16, 1] written
parallel i from [0] extent [)" +
              k + R"(] grain 1000 {
  vector l from [0] extent [16] width 16 {
    assign Z[i, l] (X[i, l]) { %0:f32 = load 0; yield %0 }
  }
}
)");
    return backend->emit(nest, backend->target(), "llvm").find("!nontemporal") != std::string::npos;
  };
  EXPECT_TRUE(streams(300'000, 300'000));
  EXPECT_TRUE(streams(500'000, 100'000));
  EXPECT_FALSE(streams(150'000, 150'000));
  EXPECT_FALSE(streams(600'000, 1'000)) << "a result that stays near";
}

// Outputs beyond the caches are written past them, whole lines at a time; where the buffer is not
// aligned to lines, or a row is not, as usual. The values are the same.
TEST(CpuBackend, LargeOutputsAreStreamed) {
  auto backend = shared_backend();
  const int64_t rows = 600'000;
  for (int64_t width : {16, 20}) {
    std::string n = std::to_string(rows), w = std::to_string(width);
    nest::Nest nest =
        parse("nest large\nargument X: f32 [" + n + "] strides [1]\nargument Z: f32 [" + n + ", " +
              w + "] strides [" + w + ", 1] written\nparallel i from [0] extent [" + n +
              R"(] grain 1000 {
  vector l from [0] extent [16] width 16 {
    assign Z[i, l] (X[i]) { %0:f32 = load 0; %1:f32 = size [l]; %2:f32 = add %0 %1; yield %2 }
  }
}
)");
    std::string text = backend->emit(nest, backend->target(), "llvm");
    EXPECT_EQ(text.find("!nontemporal") != std::string::npos, width == 16);
    auto code = backend->compile(nest, backend->target());
    std::vector<float> x(static_cast<size_t>(rows), 0.5F);
    std::vector<float> memory(static_cast<size_t>(rows * width) + 32);
    for (size_t shift : {0, 1}) {
      void* aligned = memory.data();
      size_t space = memory.size() * sizeof(float);
      std::align(64, static_cast<size_t>(rows * width) * sizeof(float), aligned, space);
      float* z = static_cast<float*>(aligned) + shift;
      std::fill_n(z, rows * width, -1.0F);
      void* pointers[] = {x.data(), z};
      backend->launch(*code, pointers, {}, {});
      int64_t wrong = 0;
      for (int64_t i = 0; i < rows * width; ++i) {
        int64_t l = i % width;
        wrong += z[i] == (l < 16 ? 0.5F + static_cast<float>(l) : -1.0F) ? 0 : 1;
      }
      EXPECT_EQ(wrong, 0);
    }
  }
}

template <class T>
std::vector<T> sorted(DType type, Shape shape, int64_t axis, const std::vector<T>& values) {
  BoundTensor source;
  source.type = type;
  source.shape = std::move(shape);
  Sort sort;
  sort.axis = axis;
  std::vector<T> result(values.size());
  shared_backend()->sort(sort, source, values.data(), result.data(), {});
  return result;
}
std::vector<int64_t> positions(Shape shape, int64_t axis, const std::vector<float>& values) {
  BoundTensor source;
  source.shape = std::move(shape);
  Sort sort;
  sort.axis = axis;
  sort.indices = true;
  std::vector<int64_t> result(values.size());
  shared_backend()->sort(sort, source, values.data(), result.data(), {});
  return result;
}

// Rule 6.4: stable, NaN last.
TEST(CpuSort, NanLastAndStable) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(positions({8}, 0, {nan, 2, 0.0f, -0.0f, nan, -inf, inf, 2}),
            (std::vector<int64_t>{5, 2, 3, 1, 7, 6, 0, 4}));
  std::vector<float> s = sorted<float>(DType::f32, {4}, 0, {nan, 1, -inf, 0});
  EXPECT_EQ(s[0], -inf);
  EXPECT_EQ(s[2], 1);
  EXPECT_TRUE(std::isnan(s[3]));
}

TEST(CpuSort, AnyAxis) {
  std::vector<int32_t> v = {5, 1, 4, 2, 3, 0, -1, 7, 6, 9, 8, 2};
  EXPECT_EQ(sorted(DType::i32, {2, 3, 2}, 1, v),
            (std::vector<int32_t>{3, 0, 4, 1, 5, 2, -1, 2, 6, 7, 8, 9}));
  EXPECT_EQ(sorted(DType::i32, {2, 3, 2}, 0, v),
            (std::vector<int32_t>{-1, 1, 4, 2, 3, 0, 5, 7, 6, 9, 8, 2}));
  EXPECT_TRUE(sorted<int32_t>(DType::i32, {0, 3}, 1, {}).empty());
}

TEST(CpuSort, NarrowFloats) {
  // 1, -1, NaN, 0, -inf, 0.5 in half precision.
  std::vector<uint16_t> half = {0x3c00, 0xbc00, 0x7e00, 0x0000, 0xfc00, 0x3800};
  EXPECT_EQ(sorted(DType::f16, {6}, 0, half),
            (std::vector<uint16_t>{0xfc00, 0xbc00, 0x0000, 0x3800, 0x3c00, 0x7e00}));
  std::vector<uint16_t> brain = {0x3f80, 0xbf80, 0x7fc0, 0x0000, 0xff80};
  EXPECT_EQ(sorted(DType::bf16, {5}, 0, brain),
            (std::vector<uint16_t>{0xff80, 0xbf80, 0x0000, 0x3f80, 0x7fc0}));
}

TEST(CpuSort, LongRowsAreStableToo) {
  std::vector<float> v(200'000);
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i * 7919 % 100);
  std::vector<int64_t> p = positions({200'000}, 0, v);
  for (size_t i = 1; i < p.size(); ++i) {
    float a = v[static_cast<size_t>(p[i - 1])], b = v[static_cast<size_t>(p[i])];
    ASSERT_TRUE(a < b || (a == b && p[i - 1] < p[i]));
  }
}

}  // namespace
}  // namespace tile::cpu
