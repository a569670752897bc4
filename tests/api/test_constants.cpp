// Inputs declared constant: copied and packed when the program is compiled.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "tile/tile.hpp"

namespace {

namespace jit = tile::jit;

const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}\n";
const char* kConvolution =
    "function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) {\n"
    "  O[n, y, x, co: N, H, W, CO] = +(I[n, y + j - 1, x + i - 1, ci] * K[j, i, ci, co]);\n}\n";

jit::Engine engine(const char* backend = "cpu", size_t memory_limit = 0) {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = backend;
  options.cache_mode = "off";
  options.memory_limit = memory_limit;
  return jit::Engine(options);
}

std::vector<float> integers(size_t count, size_t seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 7 + i / 13 + seed) % 5) - 2;
  }
  return values;
}

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, size_t m,
                           size_t n, size_t k) {
  std::vector<float> c(m * n);
  for (size_t i = 0; i < m; ++i) {
    for (size_t p = 0; p < k; ++p) {
      for (size_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
    }
  }
  return c;
}

// The code of a failed call; empty without one. The error goes.
std::string code_of(tile_error* error) {
  std::string code = error == nullptr ? "" : tile_error_code(error);
  tile_error_free(error);
  return code;
}

class Constants : public testing::Test {
 protected:
  static constexpr int64_t kM = 60, kN = 200, kK = 150;
  std::vector<float> a_ = integers(kM * kK, 1), b_ = integers(kK * kN, 2), c_ = b_;
  jit::View a() { return jit::view(a_.data(), {kM, kK}); }
  jit::View b() { return jit::view(b_.data(), {kK, kN}); }
  jit::View c() {
    c_.assign(kM * kN, -1);
    return jit::view(c_.data(), {kM, kN});
  }
  std::vector<float> expected() { return product(a_, b_, kM, kN, kK); }
};

TEST_F(Constants, ManyRunsOfOneCopy) {
  for (const char* backend : {"cpu", "reference"}) {
    jit::Engine e = engine(backend);
    jit::Executable x = e.parse("tile", kProduct).compile({a(), b()}, {1});
    for (size_t seed = 3; seed < 6; ++seed) {
      a_ = integers(kM * kK, seed);
      x.run({a(), b()}, {c()});
      EXPECT_EQ(c_, expected()) << backend;
    }
  }
}

// Where its tensor was, what it holds and whether it is there no longer matter.
TEST_F(Constants, ElementsAreThoseOfTheDeclaration) {
  jit::Engine e = engine();
  jit::Executable x = e.parse("tile", kProduct).compile({a(), b()}, {1});
  std::vector<float> before = expected();
  std::fill(b_.begin(), b_.end(), 100.0f);
  x.run({a(), b()}, {c()});
  EXPECT_EQ(c_, before);
  b_ = std::vector<float>();
  DLTensor given = a().tensor(), result = c().tensor();
  jit::View va = a(), vc = c();
  given = va.tensor();
  result = vc.tensor();
  const DLTensor* left_out[] = {&given, nullptr};
  DLTensor* outputs[] = {&result};
  jit::check(tile_executable_run(x.get(), left_out, 2, outputs, 1, nullptr));
  EXPECT_EQ(c_, before);
  std::fill(c_.begin(), c_.end(), -1.0f);
  jit::check(tile_executable_run(x.get(), left_out, 1, outputs, 1, nullptr));
  EXPECT_EQ(c_, before);
  tile_run_options options{};
  options.struct_size = sizeof options;
  options.cancel = [](void*) { return 0; };  // the longer way
  std::fill(c_.begin(), c_.end(), -1.0f);
  jit::check(tile_executable_run(x.get(), left_out, 2, outputs, 1, &options));
  EXPECT_EQ(c_, before);
}

TEST_F(Constants, AnotherTensorIsAnError) {
  for (const char* backend : {"cpu", "reference"}) {
    jit::Engine e = engine(backend);
    jit::Program program = e.parse("tile", kProduct);
    jit::Executable x = program.compile({a(), b()}, {1});
    std::vector<float> other = b_;
    try {
      x.run({a(), jit::view(other.data(), {kK, kN})}, {c()});
      FAIL() << "another tensor was taken";
    } catch (const jit::Error& error) {
      EXPECT_EQ(error.code(), "argument");
      EXPECT_NE(error.message().find("B (1) was declared constant"), std::string::npos);
    }
    // Of an input that is not constant nothing is left out; another executable has no constants.
    EXPECT_THROW(x.run({}, {c()}), jit::Error);
    program.run({a(), jit::view(other.data(), {kK, kN})}, {c()});
    EXPECT_EQ(c_, expected());
    EXPECT_THROW(program.run({a()}, {c()}), jit::Error);
  }
}

TEST_F(Constants, WrongDeclarations) {
  jit::Engine e = engine();
  jit::Program program = e.parse("tile", kProduct);
  jit::View va = a(), vb = b();
  DLTensor ta = va.tensor(), tb = vb.tensor();
  const DLTensor* inputs[] = {&ta, &tb};
  tile_executable* made = nullptr;
  size_t numbers[] = {1, 2};
  tile_compile_options options{};
  options.constants = numbers;
  options.constant_count = 2;
  auto compiled = [&] {
    return code_of(tile_program_compile_with(program.get(), inputs, 2, &options, &made));
  };
  EXPECT_EQ(compiled(), "argument") << "no struct_size";
  options.struct_size = sizeof options;
  EXPECT_EQ(compiled(), "argument") << "there is no input 2";
  options.constant_count = 1;
  tb.data = nullptr;
  EXPECT_EQ(compiled(), "argument") << "a null data pointer";
  options.constants = nullptr;
  EXPECT_EQ(compiled(), "argument") << "no numbers";
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(code_of(tile_program_compile_with(program.get(), inputs, 2, nullptr, nullptr)),
            "argument");
  options.constant_count = 0;
  EXPECT_EQ(compiled(), "");
  tile_executable_free(made);
}

TEST_F(Constants, StridedAndRepeatedOnes) {
  jit::Engine e = engine();
  std::vector<float> turned(kK * kN);
  for (size_t k = 0; k < kK; ++k) {
    for (size_t n = 0; n < kN; ++n) turned[n * kK + k] = b_[k * kN + n];
  }
  jit::View columns(turned.data(), {kDLFloat, 32, 1}, {kK, kN}, {1, kK});
  jit::Executable x = e.parse("tile", kProduct).compile({a(), columns}, {1, 1, 0});
  x.run({a(), columns}, {c()});
  EXPECT_EQ(c_, expected());
  float one = 1;
  jit::View all(&one, {kDLFloat, 32, 1}, {kK, kN}, {0, 0});
  jit::Executable ones = e.parse("tile", kProduct).compile({a(), all}, {1});
  ones.run({a(), all}, {c()});
  b_.assign(kK * kN, 1);
  EXPECT_EQ(c_, expected());
}

TEST_F(Constants, ThreadsShareThem) {
  jit::Engine e = engine();
  jit::Executable x = e.parse("tile", kProduct).compile({a(), b()}, {1});
  std::vector<float> wanted = expected();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      std::vector<float> mine(kM * kN);
      for (int i = 0; i < 20; ++i) {
        x.run({a(), b()}, {jit::view(mine.data(), {kM, kN})});
        wrong += mine == wanted ? 0 : 1;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Constants, MemoryIsCountedAndGoes) {
  jit::Engine e = engine();
  jit::Program program = e.parse("tile", kProduct);
  {
    jit::Executable x = program.compile({a(), b()}, {1});
    EXPECT_GE(e.statistics().constant_bytes, b_.size() * sizeof(float));
  }
  EXPECT_EQ(e.statistics().constant_bytes, 0U);
  jit::Engine small = engine("cpu", b_.size() * sizeof(float) / 2);
  try {
    small.parse("tile", kProduct).compile({a(), b()}, {1});
    FAIL() << "constants beyond the limit";
  } catch (const jit::Error& error) {
    EXPECT_EQ(error.code(), "memory");
  }
  EXPECT_EQ(small.statistics().constant_bytes, 0U);
}

TEST_F(Constants, TuningPacksThemAnew) {
  jit::Engine e = engine();
  jit::Executable x = e.parse("tile", kProduct).compile({a(), b()}, {1});
  x.tune(30);
  x.run({a(), b()}, {c()});
  EXPECT_EQ(c_, expected());
}

// Filters are packed: the text says so, and the kernel does not.
TEST(ConstantFilters, ArePackedOnce) {
  jit::Engine e = engine();
  jit::Program program = e.parse("tile", kConvolution);
  std::vector<float> image = integers(2 * 14 * 14 * 64, 1), filter = integers(9 * 64 * 96, 2);
  std::vector<float> plain(2 * 14 * 14 * 96), got(plain.size());
  jit::View i = jit::view(image.data(), {2, 14, 14, 64}),
            k = jit::view(filter.data(), {3, 3, 64, 96});
  program.run({i, k}, {jit::view(plain.data(), {2, 14, 14, 96})});
  jit::Executable x = program.compile({i, k}, {1});
  EXPECT_NE(x.explain().find("K is packed once"), std::string::npos) << x.explain();
  EXPECT_EQ(x.emit("nest").rfind("# once", 0), 0U);
  x.run({i, k}, {jit::view(got.data(), {2, 14, 14, 96})});
  EXPECT_EQ(got, plain);
  // A batch of another size shares nothing but code.
  std::vector<float> one(14 * 14 * 96);
  jit::Executable y = program.compile({jit::view(image.data(), {1, 14, 14, 64}), k}, {1});
  y.run({jit::view(image.data(), {1, 14, 14, 64}), k}, {jit::view(one.data(), {1, 14, 14, 96})});
  EXPECT_TRUE(std::equal(one.begin(), one.end(), plain.begin()));
}

TEST(ConstantParameters, SizesAndScalars) {
  jit::Engine e = engine();
  jit::Program scale = e.parse("tile", "function (A[N], S[]) -> (O) { O = A * S; }");
  std::vector<float> a{1, 2, 3}, o(3);
  float s = 2;
  jit::Executable x = scale.compile({jit::view(a.data(), {3}), jit::view(&s, {})}, {1});
  s = 5;
  x.run({jit::view(a.data(), {3}), jit::view(&s, {})}, {jit::view(o.data(), {3})});
  EXPECT_EQ(o, (std::vector<float>{2, 4, 6}));
  // No elements, and an output that is the input.
  jit::Executable none = scale.compile({jit::view(a.data(), {0}), jit::view(&s, {})}, {0, 1});
  none.run({jit::view(a.data(), {0}), jit::view(&s, {})}, {jit::view(o.data(), {0})});
  jit::Program same = e.parse("tile", "function (A[N]) -> (O) { O = reshape(A, 3, 1); }");
  std::vector<float> kept = a;
  jit::Executable y = same.compile({jit::view(a.data(), {3})}, {0});
  a.assign(3, 0);
  y.run({jit::view(a.data(), {3})}, {jit::view(o.data(), {3, 1})});
  EXPECT_EQ(o, kept);
}

}  // namespace
