// Programs run from inside the host's own oneTBB tasks.
#include <gtest/gtest.h>
#include <tbb/parallel_for.h>

#include <atomic>

#include "tile/tile.hpp"

namespace {

namespace jit = tile::jit;

// Each run has temporaries, and parallel loops that other tasks' threads could be drawn into.
TEST(Tasks, NestedRunsKeepTheirTemporariesApart) {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.cache_mode = "off";
  jit::Engine engine(options);
  jit::Program program = engine.parse(
      "tile",
      "function (A[M, N]) -> (O) { S[i: M] = +(A[i, j]); T[i, j: M, N] = +(A[i, k] * A[j, k]);"
      " O[i: M] = +(T[i, j] * S[j]); }");
  constexpr int64_t kSize = 200;
  std::atomic<int> wrong{0};
  tbb::parallel_for(0, 64, [&](int task) {
    auto value = static_cast<float>(task % 5);
    std::vector<float> a(kSize * kSize, value), o(kSize);
    program.run({jit::view(a.data(), {kSize, kSize})}, {jit::view(o.data(), {kSize})});
    float expected = value * value * value * kSize * kSize * kSize;
    for (float x : o) wrong += x == expected ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
