// From a program's text to its first result: nothing cached, kernels on disk, everything in memory.
#include <benchmark/benchmark.h>

#include "bench/micro/product.h"

namespace {

using namespace tile;
using namespace tile::bench;

constexpr int64_t kSize = 64;

void first_result(const std::shared_ptr<Engine>& engine) {
  Product product(engine, kSize);
  std::shared_ptr<const Executable> executable = product.program().executable(product.layouts());
  run(*executable, product.inputs(), product.outputs());
}

void text_to_first_result_cold(benchmark::State& state) {
  for (auto _ : state) first_result(fresh_engine());
}
BENCHMARK(text_to_first_result_cold)->Unit(benchmark::kMillisecond)->UseRealTime();

void text_to_first_result_disk_hit(benchmark::State& state) {
  TemporaryFolder folder;
  first_result(fresh_engine(folder.path()));
  for (auto _ : state) {
    std::shared_ptr<Engine> engine = fresh_engine(folder.path());
    first_result(engine);
    if (engine->kernels().disk_hits == 0) state.SkipWithError("the disk cache was not hit");
  }
}
BENCHMARK(text_to_first_result_disk_hit)->Unit(benchmark::kMillisecond)->UseRealTime();

// The look-up of an executable by the layouts of its inputs.
void hashed_hit(benchmark::State& state) {
  Product product(fresh_engine(), kSize);
  product.program().executable(product.layouts());
  for (auto _ : state) {
    benchmark::DoNotOptimize(product.program().executable(product.layouts()));
  }
}
BENCHMARK(hashed_hit);

}  // namespace
