// tile_engine_options.memory_limit bounds whatever a run takes beside its tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tile/tile.hpp"

namespace {

namespace jit = tile::jit;
using ::testing::HasSubstr;

constexpr int64_t kRows = 4, kLength = 10'000;
constexpr size_t kSmall = 100'000, kLarge = 50'000'000;

jit::Engine limited(size_t bytes, const char* backend = "cpu") {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = backend;
  options.cache_mode = "off";
  options.threads = 2;
  options.memory_limit = bytes;
  return jit::Engine(options);
}

// The code of the error that a run of the program ends in; empty: none.
std::string failure(jit::Engine engine, const char* text, const jit::View& x, const jit::View& o) {
  try {
    engine.parse("tile", text).run({x}, {o});
  } catch (const jit::Error& error) {
    return error.code();
  }
  return "";
}

class MemoryLimit : public ::testing::Test {
 protected:
  std::vector<float> a_ = std::vector<float>(4 * kRows * kLength, 1), o_ = a_;
  jit::View x_ = jit::view(a_.data(), {kRows, kLength});
  jit::View result_ = jit::view(o_.data(), {kRows, kLength});

  void expect_limited(const char* text, const jit::View& x, const jit::View& o,
                      const char* backend = "cpu") {
    EXPECT_EQ(failure(limited(kSmall, backend), text, x, o), "memory") << text;
    EXPECT_EQ(failure(limited(kLarge, backend), text, x, o), "") << text;
  }
};

// A row of a sort takes 16 bytes an element, which nobody counted.
TEST_F(MemoryLimit, Sorts) {
  expect_limited("function (X[M, N]) -> (O) { O = sort(X, 1); }", x_, result_);
}

TEST_F(MemoryLimit, DenseCopiesOfStridedOutputs) {
  jit::View strided(o_.data(), {kDLFloat, 32, 1}, {kRows, kLength}, {2 * kLength, 2});
  expect_limited("function (X[M, N]) -> (O) { O = X * 2; }", x_, strided);
}

TEST_F(MemoryLimit, TheInterpretersTensors) {
  expect_limited("function (X[M, N]) -> (O) { T = X * 2; O = T + T; }", x_, result_, "reference");
}

// The error of a run, and the line that it is on.
std::pair<std::string, int> refusal(jit::Engine engine, int64_t length) {
  // The interpreter reads its input, the others refuse before.
  std::vector<float> a(static_cast<size_t>(length), 1), o = a;
  const char* text =
      "function (A[N]) -> (O) {\n  B[i, j, k: N, N, N] = +(A[i] * A[j] * A[k]);\n"
      "  C = sort(B, 2);\n  O[i: N] = >(C[i, j, k]);\n}\n";
  try {
    engine.parse("tile", text)
        .run({jit::view(a.data(), {length})}, {jit::view(o.data(), {length})});
  } catch (const jit::Error& error) {
    EXPECT_EQ(error.stage(), TILE_STAGE_COMPILE);
    return {error.message(), error.line()};
  }
  return {};
}

TEST_F(MemoryLimit, TheErrorNamesTheLargestTensorAtItsPlace) {
  auto [message, line] = refusal(limited(kSmall), 100);
  EXPECT_THAT(message, HasSubstr("of which the tensor B, f32[100, 100, 100], takes 3.81 MiB; the "
                                 "limit is 97.7 KiB"));
  EXPECT_EQ(line, 2);
}

TEST_F(MemoryLimit, OfTwoToThe51ElementsTheErrorIsTheSame) {
  auto [message, line] = refusal(limited(0), 1 << 17);
  EXPECT_THAT(message, HasSubstr("the tensor B, f32[131072, 131072, 131072], takes 8 PiB; this "
                                 "machine has"));
  EXPECT_EQ(line, 2);
}

TEST_F(MemoryLimit, TheInterpreterNamesItToo) {
  auto [message, line] = refusal(limited(0, "reference"), 1 << 17);
  EXPECT_THAT(message, HasSubstr("the tensor B, f32[131072, 131072, 131072], takes 8 PiB; "));
  EXPECT_THAT(message, HasSubstr("may take 1 GiB"));
  EXPECT_EQ(line, 2);
}

// Attention's results and gradients, with the bytes of temporaries that the engine planned.
struct Trained {
  std::vector<std::vector<float>> results;
  size_t temporary_bytes = 0;
};
constexpr int64_t kHeads = 2, kTokens = 640, kDepth = 32;

jit::Program training(jit::Engine& engine, const std::string& condition) {
  std::string text =
      "function (Q[H, S, D], K[H, S, D], V[H, S, D]) -> (O) {\n"
      "  L[h, s, t: H, S, S] = +(Q[h, s, d] * K[h, t, d]);\n"
      "  Top[h, s, 0: H, S, 1] = >(L[h, s, t])" +
      condition + ";\n  E = exp(L - Top);\n  Sum[h, s, 0: H, S, 1] = +(E[h, s, t])" + condition +
      ";\n  R[h, s, d: H, S, D] = +(E[h, s, t] * V[h, t, d])" + condition +
      ";\n  O = R / Sum;\n}\n";
  return engine.parse("tile", text).differentiate("O", {"Q", "K", "V"});
}
Trained trained(jit::Engine& engine, const jit::Program& program, int64_t tokens) {
  Trained made;
  std::vector<std::vector<float>> inputs(
      4, std::vector<float>(static_cast<size_t>(kHeads * tokens * kDepth)));
  made.results = inputs;
  std::vector<jit::View> given, results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t k = 0; k < inputs[i].size(); ++k) {
      inputs[i][k] = std::sin(static_cast<float>((i + 1) * k)) / 2;
    }
    given.push_back(jit::view(inputs[i].data(), {kHeads, tokens, kDepth}));
    results.push_back(jit::view(made.results[i].data(), {kHeads, tokens, kDepth}));
  }
  program.run(given, results);
  made.temporary_bytes = engine.statistics().temporary_bytes;
  return made;
}
Trained trained(size_t limit, const std::string& condition, int64_t tokens = kTokens) {
  jit::Engine engine = limited(limit);
  return trained(engine, training(engine, condition), tokens);
}
void expect_close(const Trained& a, const Trained& b) {
  for (size_t i = 0; i < a.results.size(); ++i) {
    for (size_t k = 0; k < a.results[i].size(); ++k) {
      ASSERT_NEAR(a.results[i][k], b.results[i][k], 1e-5) << i << " " << k;
    }
  }
}

// What would not fit is computed again instead of stored: here scores of each query and key.
TEST(LittleMemory, GradientsOfAttentionStoreNoScores) {
  constexpr size_t kScores = sizeof(float) * kHeads * kTokens * kTokens;
  Trained stored = trained(kLarge, ""), again = trained(kScores, "");
  EXPECT_GE(stored.temporary_bytes, kScores);
  EXPECT_LT(again.temporary_bytes, kScores / 8);
  expect_close(stored, again);
}

// Sizes of one class share code whose loops over blocks begin and end where their masks say.
TEST(LittleMemory, MasksOfAClassOfSizes) {
  jit::Engine engine = limited(kLarge);
  jit::Program program = training(engine, ", s - t < S");
  for (int64_t tokens : {1500, 1400, 1333, 1499}) {
    Trained shared = trained(engine, program, tokens);
    EXPECT_LT(shared.temporary_bytes, sizeof(float) * kHeads * 1333 * 1333);
    expect_close(shared, trained(kSmall * 30, ", s - t < S", tokens));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
