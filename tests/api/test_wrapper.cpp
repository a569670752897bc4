// tile.hpp: the C++ wrapper over the C interface.
#include <gtest/gtest.h>

#include "tile/tile.hpp"

namespace {

namespace jit = tile::jit;

jit::Engine engine() {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.cache_mode = "off";
  return jit::Engine(options);
}

TEST(Wrapper, RunsDifferentiatesAndExplains) {
  jit::Engine e = engine();
  EXPECT_FALSE(e.device().empty());
  jit::Program p = e.parse("tile", "function (A[N]) -> (S) { S[] = +(A[i] * A[i]); }");
  EXPECT_EQ(p.inputs(), std::vector<std::string>{"A"});
  EXPECT_EQ(p.outputs(), std::vector<std::string>{"S"});
  std::vector<float> a{1, 2, 3}, da(3);
  float s = 0, seed = 1;
  p.run({jit::view(a.data(), {3})}, {jit::view(&s, {})});
  EXPECT_EQ(s, 14);
  jit::Program g = p.differentiate("S", {"A"});
  jit::Executable x = g.compile({jit::view(a.data(), {3}), jit::view(&seed, {})});
  EXPECT_EQ(x.output_shape(1), std::vector<int64_t>{3});
  EXPECT_EQ(x.output_type(1).code, kDLFloat);
  x.run({jit::view(a.data(), {3}), jit::view(&seed, {})},
        {jit::view(&s, {}), jit::view(da.data(), {3})});
  EXPECT_EQ(da, (std::vector<float>{2, 4, 6}));
  EXPECT_NE(x.explain().find("kernel"), std::string::npos);
  EXPECT_NE(x.emit("nest").find("nest"), std::string::npos);
  EXPECT_GE(e.statistics().kernels_compiled, 2U);
}

TEST(Wrapper, ErrorsAreExceptionsWithPositions) {
  jit::Engine e = engine();
  try {
    e.parse("tile", "function (A[N]) -> (O) { O[i: N] = +(A[i]) }", "x.tile");
    FAIL() << "a missing semicolon was accepted";
  } catch (const jit::Error& error) {
    EXPECT_EQ(error.stage(), TILE_STAGE_PARSE);
    EXPECT_EQ(error.line(), 1);
    EXPECT_NE(std::string(error.what()).find("x.tile:1:"), std::string::npos);
  }
}

}  // namespace
