// Executables as bytes: what was saved runs in another engine as it ran in its own, and what is
// damaged, foreign or made for another processor is an error.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "programs.h"

namespace tile::test {
namespace {

std::string load_code(const jit::Engine& engine, const std::vector<std::byte>& bytes) {
  tile_executable* made = nullptr;
  std::string code = code_of(tile_executable_load(engine.get(), bytes.data(), bytes.size(), &made));
  EXPECT_EQ(made == nullptr, !code.empty());
  tile_executable_free(made);
  return code;
}

class Saved : public testing::Test {
 protected:
  static constexpr int64_t kM = 37, kN = 61, kL = 29;
  jit::View a() { return jit::view(a_.data(), {kM, kL}); }
  jit::View b() { return jit::view(b_.data(), {kL, kN}); }
  jit::View c() {
    c_.assign(kM * kN, -1);
    return jit::view(c_.data(), {kM, kN});
  }
  std::vector<std::byte> product_bytes(const std::vector<size_t>& constants = {}) {
    return engine_.parse("tile", kProduct).compile({a(), b()}, constants).save();
  }

  std::vector<float> a_ = integers(kM * kL, 1), b_ = integers(kL * kN, 2), c_;
  jit::Engine engine_{options_of()};
  jit::Engine other_{options_of()};
};

TEST_F(Saved, RunsAsBeforeWithoutItsProgram) {
  jit::Executable before = engine_.parse("tile", kProduct).compile({a(), b()});
  std::vector<std::byte> bytes = before.save();
  before.run({a(), b()}, {c()});
  std::vector<float> expected = c_;
  jit::Executable after = other_.load(bytes.data(), bytes.size());
  after.run({a(), b()}, {c()});
  EXPECT_EQ(c_, expected);
  EXPECT_EQ(after.output_shape(0), (std::vector<int64_t>{kM, kN}));
  EXPECT_EQ(tile_executable_input_count(after.get()), 2U);
  EXPECT_EQ(tile_executable_output_count(after.get()), 1U);
  DLTensor input;
  jit::check(tile_executable_input(after.get(), 1, &input));
  EXPECT_EQ(input.ndim, 2);
  EXPECT_EQ(input.shape[1], kN);
  EXPECT_EQ(input.strides[0], kN);
  EXPECT_EQ(other_.statistics().kernels_compiled, 0U);
  EXPECT_EQ(other_.statistics().binds, 0U);
}

// Of many kinds of programs: temporaries, rows, sorts, scatters, literals, scans, several outputs.
TEST_F(Saved, ProgramsOfAllKinds) {
  constexpr int64_t kSize = 48;
  const char* programs[] = {
      kChain,
      kSoftmax,
      "function (X[M, N]) -> (S, I) { S = sort(X, 1); I = argsort(X, 0); }",
      "function (X[M, N]) -> (O, P) { O[i, j: M, N] = +(X[i, k]), j - k < N; P = X; }",
      "function (X[M, N]) -> (O) { T = reshape(X, N, M); O = T * 2.5 + 1; }",
  };
  std::vector<float> x = integers(kSize * kSize, 3);
  for (const char* text : programs) {
    SCOPED_TRACE(text);
    jit::Executable before =
        engine_.parse("tile", text).compile({jit::view(x.data(), {kSize, kSize})});
    std::vector<std::byte> bytes = before.save();
    jit::Executable after = other_.load(bytes.data(), bytes.size());
    std::vector<std::vector<double>> results[2];
    for (size_t which = 0; which < 2; ++which) {
      const jit::Executable& e = which == 0 ? before : after;
      std::vector<jit::View> outputs;
      results[which].resize(tile_executable_output_count(e.get()));
      for (size_t i = 0; i < results[which].size(); ++i) {
        results[which][i].assign(kSize * kSize, -7);
        outputs.emplace_back(results[which][i].data(), e.output_type(i), e.output_shape(i));
      }
      e.run({jit::view(x.data(), {kSize, kSize})}, outputs);
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      size_t bytes_of = results[0][i].size() * sizeof(double);
      EXPECT_EQ(std::memcmp(results[0][i].data(), results[1][i].data(), bytes_of), 0);
    }
  }
}

TEST_F(Saved, CarriesItsConstants) {
  std::vector<std::byte> bytes = product_bytes({1});
  jit::Executable plain = engine_.parse("tile", kProduct).compile({a(), b()});
  plain.run({a(), b()}, {c()});
  std::vector<float> expected = c_;
  b_.assign(b_.size(), 99);
  jit::Executable after = other_.load(bytes.data(), bytes.size());
  DLTensor given = a().tensor();
  jit::View left = a(), right = c();
  given = left.tensor();
  DLTensor result = right.tensor();
  const DLTensor* inputs[] = {&given};
  DLTensor* outputs[] = {&result};
  jit::check(tile_executable_run(after.get(), inputs, 1, outputs, 1, nullptr));
  EXPECT_EQ(c_, expected);
  // Another tensor is an error, as before.
  jit::View other = b();
  DLTensor wrong = other.tensor();
  const DLTensor* both[] = {&given, &wrong};
  EXPECT_EQ(code_of(tile_executable_run(after.get(), both, 2, outputs, 1, nullptr)), "argument");
}

TEST_F(Saved, WhatNeedsTheProgramIsAnError) {
  std::vector<std::byte> bytes = product_bytes();
  jit::Executable after = other_.load(bytes.data(), bytes.size());
  char* text = nullptr;
  EXPECT_EQ(code_of(tile_executable_explain(after.get(), &text)), "argument");
  EXPECT_EQ(code_of(tile_executable_emit(after.get(), "nest", &text)), "argument");
  EXPECT_EQ(code_of(tile_executable_warnings(after.get(), &text)), "argument");
  EXPECT_EQ(code_of(tile_executable_tune(after.get(), 1)), "argument");
  // Saved once more it is the same.
  EXPECT_EQ(after.save(), bytes);
}

TEST_F(Saved, EveryByteThatIsAnotherIsAnError) {
  std::vector<std::byte> bytes = product_bytes();
  // All of the head and of the descriptions, then some of the code.
  size_t step = 1;
  for (size_t at = 0; at < bytes.size(); at += step) {
    std::vector<std::byte> other = bytes;
    other[at] ^= std::byte{0x10};
    ASSERT_EQ(load_code(other_, other), "saved") << at;
    if (at > 256) step = 97;
  }
}

TEST_F(Saved, EveryTruncationIsAnError) {
  std::vector<std::byte> bytes = product_bytes();
  for (size_t size = 0; size < bytes.size(); size += size < 256 ? 1 : 61) {
    std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    if (cut.empty()) cut.reserve(1);
    ASSERT_EQ(load_code(other_, cut), cut.data() == nullptr ? "argument" : "saved") << size;
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_EQ(load_code(other_, longer), "saved");
}

TEST_F(Saved, OtherEnginesDoNotTakeIt) {
  std::vector<std::byte> bytes = product_bytes();
  jit::Engine reference(options_of("reference"));
  EXPECT_EQ(load_code(reference, bytes), "unsupported");
  void* saved = nullptr;
  size_t size = 0;
  jit::Executable e = reference.parse("tile", kProduct).compile({a(), b()});
  EXPECT_EQ(code_of(tile_executable_save(e.get(), &saved, &size)), "unsupported");
  EXPECT_EQ(saved, nullptr);
  tile_engine_options small = options_of();
  small.memory_limit = 1;
  std::vector<float> x = integers(48 * 48, 3);
  std::vector<std::byte> chain =
      engine_.parse("tile", kChain).compile({jit::view(x.data(), {48, 48})}).save();
  EXPECT_EQ(load_code(jit::Engine(small), chain), "memory");
}

TEST_F(Saved, NullsAreErrors) {
  std::vector<std::byte> bytes = product_bytes();
  jit::Executable e = engine_.parse("tile", kProduct).compile({a(), b()});
  void* data = nullptr;
  size_t size = 0;
  tile_executable* made = nullptr;
  EXPECT_EQ(code_of(tile_executable_save(nullptr, &data, &size)), "argument");
  EXPECT_EQ(code_of(tile_executable_save(e.get(), nullptr, &size)), "argument");
  EXPECT_EQ(code_of(tile_executable_save(e.get(), &data, nullptr)), "argument");
  EXPECT_EQ(code_of(tile_executable_load(nullptr, bytes.data(), bytes.size(), &made)), "argument");
  EXPECT_EQ(code_of(tile_executable_load(engine_.get(), nullptr, 1, &made)), "argument");
  EXPECT_EQ(code_of(tile_executable_load(engine_.get(), bytes.data(), bytes.size(), nullptr)),
            "argument");
  DLTensor description;
  EXPECT_EQ(code_of(tile_executable_input(e.get(), 2, &description)), "argument");
  EXPECT_EQ(code_of(tile_executable_input(nullptr, 0, &description)), "argument");
  tile_bytes_free(nullptr);
}

TEST_F(Saved, OutlivesTheEngineItWasLoadedWith) {
  std::vector<std::byte> bytes = product_bytes();
  jit::Executable plain = engine_.parse("tile", kProduct).compile({a(), b()});
  plain.run({a(), b()}, {c()});
  std::vector<float> expected = c_;
  auto loaded = [&] { return jit::Engine(options_of()).load(bytes.data(), bytes.size()); };
  jit::Executable after = loaded();
  after.run({a(), b()}, {c()});
  EXPECT_EQ(c_, expected);
}

TEST_F(Saved, ManyThreadsLoadAndRun) {
  std::vector<std::byte> bytes = product_bytes();
  jit::Executable plain = engine_.parse("tile", kProduct).compile({a(), b()});
  plain.run({a(), b()}, {c()});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        jit::Executable e = other_.load(bytes.data(), bytes.size());
        std::vector<float> result(kM * kN);
        e.run({a(), b()}, {jit::view(result.data(), {kM, kN})});
        wrong += result == c_ ? 0 : 1;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// From bytes to a result: the best of some, as the machine may be busy. Ten times the aim.
TEST_F(Saved, LoadsFast) {
  std::vector<std::byte> bytes = product_bytes();
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    auto start = std::chrono::steady_clock::now();
    other_.load(bytes.data(), bytes.size()).run({a(), b()}, {c()});
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  RecordProperty("milliseconds", std::to_string(best));
  EXPECT_LT(best, 10);
}

// A narrower engine's code runs here; its features are what the bytes ask for.
TEST_F(Saved, OfFewerFeatures) {
  tile_engine_options narrow = options_of();
  narrow.features = "sse";
  jit::Engine engine(narrow);
  std::vector<std::byte> bytes = engine.parse("tile", kProduct).compile({a(), b()}).save();
  jit::Executable plain = engine_.parse("tile", kProduct).compile({a(), b()});
  plain.run({a(), b()}, {c()});
  std::vector<float> expected = c_;
  other_.load(bytes.data(), bytes.size()).run({a(), b()}, {c()});
  EXPECT_EQ(c_, expected);
}

}  // namespace
}  // namespace tile::test
