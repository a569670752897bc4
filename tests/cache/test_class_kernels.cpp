// One compilation serves a class of batch sizes (issue 4, item 5): results are those of every size,
// and new sizes compile next to nothing.
#include <gtest/gtest.h>

#include <cmath>

#include "core/interpret/interpret.h"
#include "core/schedule/search/dynamic_extent.h"
#include "core/schedule/space/candidates.h"
#include "runtime/engine/engine.h"
#include "tests/executors/run_backends.h"

namespace tile::test {
namespace {

constexpr int64_t kBatches = 64;

// The first `batch` images.
HostTensor part(const HostTensor& all, int64_t batch) {
  Shape shape = all.shape;
  shape[0] = batch;
  HostTensor t(all.type, shape);
  std::copy_n(all.bytes.begin(), t.bytes.size(), t.bytes.begin());
  return t;
}

struct Layer {
  const char* text;
  Shape input, weights;  // input[0] is the batch
};
const Layer kConvolution3x3{
    "function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) {"
    " O[n, y, x, co: N, H, W, CO] ="
    "  +(I[n, y + j - (KH - 1) / 2, x + i - (KW - 1) / 2, ci] * K[j, i, ci, co]); }",
    {kBatches, 7, 7, 32},
    {3, 3, 32, 32}};
const Layer kConvolution1x1{kConvolution3x3.text, {kBatches, 7, 7, 64}, {1, 1, 64, 96}};
const Layer kDense{
    "function (X[B, K], W[K, N], V[N]) -> (R) {"
    " Y[b, n: B, N] = +(X[b, k] * W[k, n]); R = relu(Y + V); }",
    {kBatches, 1024},
    {1024, 500}};

// Whether the model finds schedules that serve all sizes of the kernel's class. For sums of blocks
// with a stage attached, which wait in a buffer of one size, a machine's constants may say no.
bool shares_code(const Kernel& kernel, const Target& target) {
  std::optional<ClassKernel> found = for_class_of_sizes(kernel, target);
  return found && class_schedule(*found, target).has_value();
}

// Batches from 1 to 64 are of three classes: one row, which has code of its own, and two with one
// schedule each.
constexpr uint64_t kMostKernels = 3;

// Sums of small integers are exact, so that a whole batch's first images are a smaller batch's.
void expect_few_kernels(const Layer& layer) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  std::shared_ptr<LoadedProgram> program = loaded(engine, layer.text);
  std::vector<HostTensor> inputs{integers(layer.input, 1), integers(layer.weights, 2)};
  if (program->program().inputs.size() == 3) inputs.push_back(integers({layer.weights[1]}, 3));
  auto executable = [&](const std::vector<HostTensor>& given) {
    std::vector<InputLayout> layouts;
    for (const HostTensor& t : given) layouts.push_back({{t.type, t.shape}, {}});
    return program->executable(layouts);
  };
  // What the cache keeps has no kernels and statements any more.
  auto stages = [&](const std::vector<HostTensor>& given) {
    return compile_stages(*executable(given));
  };
  auto run = [&](int64_t batch) {
    std::vector<HostTensor> given = inputs;
    given[0] = part(inputs[0], batch);
    return run_code(*executable(given), given)[0];
  };
  HostTensor all = run(kBatches / 2);
  EXPECT_EQ(engine->kernels().compiled, 1U);  // the first sizes' own
  for (int64_t batch = 1; batch <= kBatches; ++batch) {
    HostTensor result = run(batch);
    if (batch > kBatches / 2) all = batch == kBatches ? result : all;
    HostTensor expected = part(all, std::min(batch, all.shape[0]));
    EXPECT_EQ(part(result, expected.shape[0]).bytes, expected.bytes) << "batch " << batch;
  }
  uint64_t compiled = engine->kernels().compiled - 1;
  bool shared = true;
  for (int64_t batch : {2, 64}) {
    std::vector<HostTensor> given = inputs;
    given[0] = part(inputs[0], batch);
    shared = shared && shares_code(*stages(given)->launches.at(0).kernel, engine->target());
  }
  if (shared) {
    EXPECT_LE(compiled, kMostKernels);
  }
  std::printf("%d sizes: %d kernels compiled\n", static_cast<int>(kBatches),
              static_cast<int>(compiled));
  // What is walked has up to 64 or, merged with the image's rows, 64 * 7 * 7 sizes.
  EXPECT_LE(engine->size_classes().schedules.size(), 3U);
  std::vector<HostTensor> one = inputs;
  one[0] = part(inputs[0], 1);  // the reference is slow
  EXPECT_EQ(interpret(stages(one)->bound, one).outputs[0].bytes, part(all, 1).bytes);
}

TEST(ClassKernels, Convolution3x3) { expect_few_kernels(kConvolution3x3); }
TEST(ClassKernels, Convolution1x1) { expect_few_kernels(kConvolution1x1); }
TEST(ClassKernels, DenseLayer) { expect_few_kernels(kDense); }

// The sizes of one layer's tensors are in the other's program too, and no part of its class. (No
// stage is attached to these products, so that every machine shares their code.)
TEST(ClassKernels, LayersOfAProgram) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  std::shared_ptr<LoadedProgram> program = loaded(engine,
                                                  "function (X[B, K], W[K, N], V[N, M]) -> (Z) {"
                                                  " Y[b, n: B, N] = +(X[b, k] * W[k, n]);"
                                                  " Z[b, m: B, M] = +(Y[b, n] * V[n, m]); }");
  std::vector<HostTensor> inputs{integers({40, 768}, 1), integers({768, 512}, 2),
                                 integers({512, 640}, 3)};
  size_t made = 0;
  for (int64_t batch : {40, 17, 23, 64}) {
    std::vector<InputLayout> layouts{{{DType::f32, {batch, 768}}, {}},
                                     {{DType::f32, {768, 512}}, {}},
                                     {{DType::f32, {512, 640}}, {}}};
    std::shared_ptr<const Executable> e = program->executable(layouts);
    EXPECT_EQ(e->launches.size(), 2U);
    for (const Launch& launch : e->launches) {
      EXPECT_EQ(launch.parameters.size(), batch == 40 ? 0U : 1U);
    }
    if (batch == 17) made = engine->size_classes().schedules.size();
  }
  EXPECT_EQ(made, 2U);  // one a layer
  EXPECT_EQ(engine->size_classes().schedules.size(), made);
  EXPECT_LE(engine->kernels().compiled, 6U);
}

// The extent is a parameter of the nest; the first sizes, a strided input and a tuned schedule take
// code of their own. A race keeps the class's where it finds none that is faster.
TEST(ClassKernels, ParametersOfLaunches) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  std::shared_ptr<LoadedProgram> program = loaded(engine, kDense.text);
  auto layouts = [](int64_t batch, std::vector<int64_t> strides) {
    return std::vector<InputLayout>{{{DType::f32, {batch, 1024}}, std::move(strides)},
                                    {{DType::f32, {1024, 500}}, {}},
                                    {{DType::f32, {500}}, {}}};
  };
  EXPECT_TRUE(program->executable(layouts(19, {}))->launches.at(0).parameters.empty());
  std::shared_ptr<const Executable> dense = program->executable(layouts(17, {}));
  if (shares_code(*dense->launches.at(0).kernel, engine->target())) {
    EXPECT_EQ(dense->launches.at(0).parameters, std::vector<int64_t>{17});
  }
  auto parameters = [&] { return dense->launches.at(0).parameters.size(); };
  EXPECT_EQ(dense->launches.at(0).nest->launch_parameter_count(), parameters());
  std::shared_ptr<const Executable> strided = program->executable(layouts(17, {2048, 1}));
  EXPECT_TRUE(strided->launches.at(0).parameters.empty());
  Kernel kernel = *compile_stages(*program->executable(layouts(23, {})))->launches[0].kernel;
  Schedule own = analytic_schedule(kernel, engine->target());
  engine->kernels().remember_schedule(kernel, engine->target(), print(own), 1);
  EXPECT_TRUE(
      loaded(engine, kDense.text)->executable(layouts(23, {}))->launches[0].parameters.empty());
  dense = tuned(*dense, 1);
  EXPECT_EQ(dense->launches.at(0).nest->launch_parameter_count(), parameters());
  std::vector<HostTensor> inputs{integers({17, 1024}, 1), integers({1024, 500}, 2),
                                 integers({500}, 3)};
  EXPECT_EQ(run_code(*dense, inputs)[0].bytes, interpret(dense->bound, inputs).outputs[0].bytes);
}

}  // namespace
}  // namespace tile::test
