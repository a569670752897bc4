// What a call costs beyond its kernel, on a product so small that it shows.
#include <benchmark/benchmark.h>

#include "bench/micro/product.h"
#include "runtime/api/handles.h"
#include "tile/tile.h"

namespace {

using namespace tile;
using namespace tile::bench;

constexpr int64_t kSize = 16;

// The kernel alone, as the backend launches it.
void launch_of_the_kernel(benchmark::State& state) {
  Product product(fresh_engine(), kSize);
  std::shared_ptr<const Executable> executable = product.program().executable(product.layouts());
  const Launch& launch = executable->launches.at(0);
  KernelLaunch kernel(product, *executable, launch, launch.code, launch.parameters);
  for (auto _ : state) kernel();
}
BENCHMARK(launch_of_the_kernel);

void run_of_an_executable(benchmark::State& state) {
  Product product(fresh_engine(), kSize);
  std::shared_ptr<const Executable> executable = product.program().executable(product.layouts());
  for (auto _ : state) run(*executable, product.inputs(), product.outputs());
}
BENCHMARK(run_of_an_executable);

// Whatever a step of the C interface reports ends the benchmark.
bool failed(benchmark::State& state, tile_error* error) {
  if (error == nullptr) return false;
  state.SkipWithError(tile_error_message(error));
  tile_error_free(error);
  return true;
}

DLTensor square(float* data, int64_t* shape) {
  return {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
}

void tile_program_run_of_the_c_interface(benchmark::State& state) {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = "cpu";
  options.cache_mode = "off";
  tile_engine* engine = nullptr;
  tile_program* program = nullptr;
  const std::string text = Product::text()->text;
  if (failed(state, tile_engine_create(&options, &engine))) return;
  if (failed(state,
             tile_program_parse(engine, "tile", nullptr, text.data(), text.size(), &program))) {
    return;
  }
  std::vector<float> a(kSize * kSize, 0.5F), b(a), c(a);
  int64_t shape[2] = {kSize, kSize};
  DLTensor left = square(a.data(), shape), right = square(b.data(), shape),
           result = square(c.data(), shape);
  const DLTensor* inputs[2] = {&left, &right};
  DLTensor* outputs[1] = {&result};
  for (auto _ : state) {
    if (failed(state, tile_program_run(program, inputs, 2, outputs, 1, nullptr))) break;
  }
  tile_program_free(program);
  tile_engine_free(engine);
}
BENCHMARK(tile_program_run_of_the_c_interface);

// Whether the tensors of a call are those of the one before: what finds the executable at a call
// site.
void call_site_hit(benchmark::State& state) {
  Product product(fresh_engine(), kSize);
  std::shared_ptr<const Executable> executable = product.program().executable(product.layouts());
  int64_t shape[2] = {kSize, kSize};
  auto described = [&](const TensorView& v) { return square(static_cast<float*>(v.data), shape); };
  DLTensor left = described(product.inputs()[0]), right = described(product.inputs()[1]),
           result = described(product.outputs()[0]);
  const DLTensor* inputs[2] = {&left, &right};
  DLTensor* outputs[1] = {&result};
  void* pointers[CallPlan::kMost];
  for (auto _ : state) {
    if (!api::take_pointers(executable->call, inputs, outputs, pointers)) {
      state.SkipWithError("the executable was not found");
    }
    benchmark::DoNotOptimize(pointers);
  }
}
BENCHMARK(call_site_hit);

}  // namespace
