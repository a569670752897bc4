// From the text of a program of several statements, which fusing makes one or two kernels, to its
// first result, with nothing cached.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "bench/micro/product.h"

namespace {

using namespace tile;
using namespace tile::bench;

struct Sample {
  const char* text;
  std::vector<Shape> inputs;
};

const Sample kSoftmax{
    "function (X[M, N]) -> (P) {"
    "  Top[m, 0: M, 1] = >(X[m, n]);"
    "  E = exp(X - Top);"
    "  Sum[m, 0: M, 1] = +(E[m, n]);"
    "  P = E / Sum;"
    "}",
    {{64, 256}}};
const Sample kLayerNorm{
    "function (X[M, N], G[N], B[N]) -> (O) {"
    "  Sum[m, 0: M, 1] = +(X[m, n]);"
    "  D = X - Sum / N;"
    "  S = D * D;"
    "  Var[m, 0: M, 1] = +(S[m, n]);"
    "  O = D * rsqrt(Var / N + 0.00001) * G + B;"
    "}",
    {{64, 256}, {256}, {256}}};
const Sample kConvolution{
    "function (I[N, H, W, C], F[R, S, C, K], B) -> (Y) {"
    "  O[n, y, x, k: N, H, W, K] = +(I[n, y + r - 1, x + s - 1, c] * F[r, s, c, k]);"
    "  Y = relu(O + B);"
    "}",
    {{1, 28, 28, 64}, {3, 3, 64, 64}, {64}}};

void cold(benchmark::State& state, const Sample& sample) {
  std::vector<HostTensor> data;
  std::vector<TensorView> inputs;
  std::vector<InputLayout> layouts;
  for (const Shape& shape : sample.inputs) {
    layouts.push_back({{DType::f32, shape}, {}});
    data.emplace_back(DType::f32, shape);
    inputs.push_back({data.back().bytes.data(), DType::f32, shape, {}});
  }
  for (auto _ : state) {
    auto source = std::make_shared<Source>(Source{"sample.tile", sample.text});
    LoadedProgram program(fresh_engine(), std::make_shared<Program>(parse(Language::tile, source)));
    std::shared_ptr<const Executable> executable = program.executable(layouts);
    const BoundTensor& result = executable->output(0);
    HostTensor output(result.type, result.shape);
    std::vector<TensorView> outputs{{output.bytes.data(), result.type, result.shape, {}}};
    run(*executable, inputs, outputs);
  }
}
BENCHMARK_CAPTURE(cold, softmax, kSoftmax)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(cold, layer_norm, kLayerNorm)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(cold, convolution_bias_relu, kConvolution)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
