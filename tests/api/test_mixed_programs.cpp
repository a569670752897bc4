// Stages in three languages on one engine: a filter (MFG), a stencil (Lift) and a contraction
// (Tile) pass tensors as they are, and their gradients chain.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tile/tile.hpp"

namespace {

namespace jit = tile::jit;

constexpr int64_t kRows = 24, kColumns = 40, kOutputs = 3;
constexpr size_t kPixels = kRows * kColumns, kResults = kOutputs * kRows;

const char* kFilter =
    "let s = sampler<input_f32>(address=.ClampToEdge)\n"
    "@bounds(input_f32.extent(0), input_f32.extent(1))\n"
    "def result_f32 |x, y| { 0.25*s(x - 1, y) + 0.5*s(x, y) + 0.25*s(x + 1, y) }\n";
const char* kStencil =
    "val down = fun(ArrayType(ArrayType(Float, M), N), IN =>\n"
    "  Map(Map(w => (At(0) o At(0) $ w) * (At(2) o At(0) $ w))) o\n"
    "  Slide2D(3, 1) o Pad2D(1, 1, clamp) $ IN)\n";
// Its second operand comes transposed, by strides.
const char* kProduct =
    "function (W[O, C], X[C, R]) -> (Y) { Y[o, r: O, R] = +(W[o, c] * X[c, r]); }";

struct Stages {
  jit::Program filter, stencil, product;
  Stages(const jit::Engine& e)
      : filter(e.parse("mfg", kFilter)),
        stencil(e.parse("lift", kStencil)),
        product(e.parse("tile", kProduct)) {}
};

struct Values {
  std::vector<float> picture = std::vector<float>(kPixels), smooth = picture, steps = picture;
  std::vector<float> weights = std::vector<float>(kOutputs * kColumns),
                     results = std::vector<float>(kResults);
  Values() {
    for (size_t i = 0; i < kPixels; ++i) picture[i] = static_cast<float>((i * 37) % 64) / 64;
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i] = static_cast<float>((i * 11) % 16) / 16 - 0.5F;
    }
  }
};

jit::View pixels(std::vector<float>& v) { return jit::view(v.data(), {kRows, kColumns}); }
jit::View transposed(std::vector<float>& v) {
  return jit::View(v.data(), {kDLFloat, 32, 1}, {kColumns, kRows}, {1, kColumns});
}

void run(const Stages& s, Values& v) {
  s.filter.run({pixels(v.picture)}, {pixels(v.smooth)});
  s.stencil.run({pixels(v.smooth)}, {pixels(v.steps)});
  s.product.run({jit::view(v.weights.data(), {kOutputs, kColumns}), transposed(v.steps)},
                {jit::view(v.results.data(), {kOutputs, kRows})});
}

double at(const std::vector<double>& v, int64_t row, int64_t column) {
  row = std::min(std::max<int64_t>(row, 0), kRows - 1);
  column = std::min(std::max<int64_t>(column, 0), kColumns - 1);
  return v[static_cast<size_t>(row * kColumns + column)];
}

std::vector<double> by_hand(const Values& v) {
  std::vector<double> picture(v.picture.begin(), v.picture.end()), smooth(kPixels), results;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    int64_t y = i / kColumns, x = i % kColumns;
    smooth[static_cast<size_t>(i)] =
        0.25 * at(picture, y, x - 1) + 0.5 * at(picture, y, x) + 0.25 * at(picture, y, x + 1);
  }
  for (int64_t o = 0; o < kOutputs; ++o) {
    for (int64_t r = 0; r < kRows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < kColumns; ++c) {
        sum += v.weights[static_cast<size_t>(o * kColumns + c)] * at(smooth, r - 1, c - 1) *
               at(smooth, r - 1, c + 1);
      }
      results.push_back(sum);
    }
  }
  return results;
}

tile_engine_options options(const char* backend) {
  tile_engine_options o{};
  o.struct_size = sizeof o;
  o.backend = backend;
  o.cache_mode = "off";
  return o;
}

class MixedPrograms : public testing::TestWithParam<const char*> {};

// A limit of temporaries below the size of any of the tensors: no stage copies one.
TEST_P(MixedPrograms, PassTensorsWithoutCopies) {
  tile_engine_options limited = options(GetParam());
  limited.memory_limit = 1;
  Stages stages{jit::Engine(limited)};
  Values values;
  run(stages, values);
  std::vector<double> expected = by_hand(values);
  for (size_t i = 0; i < kResults; ++i) ASSERT_NEAR(values.results[i], expected[i], 1e-5) << i;
}

// The chain of three vector-Jacobian products against central differences of the loops by hand,
// which are exact for a polynomial of degree two.
TEST_P(MixedPrograms, GradientsChain) {
  jit::Engine engine(options(GetParam()));
  Stages stages(engine);
  Values values;
  run(stages, values);
  std::vector<float> seed(kResults), unused(kPixels), unused_results(kResults);
  for (size_t i = 0; i < kResults; ++i) seed[i] = static_cast<float>(i % 5) - 1.5F;
  std::vector<float> d_steps(kPixels), d_smooth(kPixels), d_picture(kPixels);
  stages.product.differentiate("Y", {"X"})
      .run({jit::view(values.weights.data(), {kOutputs, kColumns}), transposed(values.steps),
            jit::view(seed.data(), {kOutputs, kRows})},
           {jit::view(unused_results.data(), {kOutputs, kRows}), transposed(d_steps)});
  stages.stencil.differentiate(stages.stencil.outputs().at(0), {"IN"})
      .run({pixels(values.smooth), pixels(d_steps)}, {pixels(unused), pixels(d_smooth)});
  stages.filter.differentiate("result_f32", {"input_f32"})
      .run({pixels(values.picture), pixels(d_smooth)}, {pixels(unused), pixels(d_picture)});
  for (size_t i = 0; i < kPixels; i += 7) {
    double slope = 0;
    for (int sign : {-1, 1}) {
      Values moved = values;
      moved.picture[i] += static_cast<float>(sign) * 0.25F;
      std::vector<double> results = by_hand(moved);
      for (size_t k = 0; k < kResults; ++k) slope += sign * results[k] * seed[k] / 0.5;
    }
    ASSERT_NEAR(d_picture[i], slope, 1e-4 * (1 + std::abs(slope))) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MixedPrograms, testing::Values("cpu", "reference"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
