// tile_engine_options.memory_limit bounds whatever a run takes beside its tensors.
#include <gtest/gtest.h>

#include <vector>

#include "tile/tile.hpp"

namespace {

namespace jit = tile::jit;

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

}  // namespace
