// One executable under several threads: runs, tuning, other handles of the same shape.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tile/tile.hpp"

namespace {

namespace jit = tile::jit;
using Clock = std::chrono::steady_clock;

constexpr int64_t kSize = 30;
constexpr auto kLong = std::chrono::milliseconds(700);
constexpr const char* kSoftmax =
    "function (X[M, N]) -> (P) { T[m, 0: M, 1] = >(X[m, n]); E = exp(X - T);"
    " S[m, 0: M, 1] = +(E[m, n]); P = E / S; }";

class TunedWhileRun : public ::testing::Test {
 protected:
  // Softmax of equal elements, until the time is over; `take` makes what runs.
  template <class Take>
  void work(const Take& take) {
    std::vector<float> a(kSize * kSize, 1), o(kSize * kSize);
    jit::View x = jit::view(a.data(), {kSize, kSize}), p = jit::view(o.data(), {kSize, kSize});
    for (auto end = Clock::now() + kLong; Clock::now() < end; ++rounds_) {
      std::fill(o.begin(), o.end(), -1.0F);
      take(x, p);
      for (float value : o) wrong_ += std::abs(value - 1.0F / kSize) < 1e-5F ? 0 : 1;
    }
  }
  void tuning() {
    work([&](jit::View& x, jit::View& p) {
      jit::Executable e = program_.compile({x});
      e.tune(2);
      e.run({x}, {p});
    });
  }
  void running() {
    work([&](jit::View& x, jit::View& p) { program_.run({x}, {p}); });
  }
  void compiling() {
    work([&](jit::View& x, jit::View& p) { program_.compile({x}).run({x}, {p}); });
  }
  void expect_right(std::vector<std::thread>& threads) {
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong_, 0);
    EXPECT_GT(rounds_, 0);
  }

  static jit::Engine engine() {
    tile_engine_options options{};
    options.struct_size = sizeof options;
    options.backend = "cpu";
    options.cache_mode = "off";
    options.threads = 1;
    return jit::Engine(options);
  }
  jit::Engine engine_ = engine();
  jit::Program program_ = engine_.parse("tile", kSoftmax);
  std::atomic<int> wrong_{0}, rounds_{0};
};

// Two compilations of one shape share an executable, which tuning used to rewrite under the other's
// runs: a crash in six of ten runs of five seconds.
TEST_F(TunedWhileRun, ByRunsOfTheProgram) {
  std::vector<std::thread> threads;
  threads.emplace_back([&] { tuning(); });
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { running(); });
  expect_right(threads);
}

TEST_F(TunedWhileRun, ByOtherHandles) {
  std::vector<std::thread> threads;
  threads.emplace_back([&] { tuning(); });
  for (int i = 0; i < 2; ++i) threads.emplace_back([&] { compiling(); });
  expect_right(threads);
}

TEST_F(TunedWhileRun, ByOthersThatTuneIt) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { tuning(); });
  expect_right(threads);
}

}  // namespace
