// What a launch on a GPU costs the host beyond the driver's own call, and how long the first result
// takes. Benchmarks of launches give the device batches that it can take without waiting, and leave
// the waiting out of the time.
#include "backends/cuda/driver/device.h"

#include <benchmark/benchmark.h>

#include <array>
#include <optional>

#include "backends/cuda/driver/nvrtc.h"
#include "bench/micro/product.h"
#include "runtime/engine/launch/device_run.h"
#include "tile/tile.h"

namespace {

using namespace tile;
using namespace tile::bench;

constexpr int64_t kElements = 1024;
constexpr int kBatch = 200;
constexpr const char* kAdd = "function (X[N], Y[N]) -> (O) { O = X + Y; }";
// Eight kernels, each needing all of what the one before it made.
constexpr const char* kChain =
    "function (X[N], Y[N]) -> (O) { A[i: N] = +(X[k]), i - k < N; B[i: N] = +(A[k]), i - k < N; "
    "C[i: N] = +(B[k]), i - k < N; D[i: N] = +(C[k]), i - k < N; E[i: N] = +(D[k]), i - k < N; "
    "F[i: N] = +(E[k]), i - k < N; G[i: N] = +(F[k]), i - k < N; O = G + Y; }";

std::shared_ptr<Engine> gpu_engine(const std::string& cache_folder = "") {
  EngineOptions options;
  options.backend = "cuda";
  options.cache_dir = cache_folder;
  options.cache_mode = cache_folder.empty() ? "off" : "rw";
  return Engine::create(options);
}

std::shared_ptr<LoadedProgram> loaded(const std::shared_ptr<Engine>& engine,
                                      const std::string& text) {
  auto source = std::make_shared<Source>(Source{"micro.tile", text});
  return std::make_shared<LoadedProgram>(engine,
                                         std::make_shared<Program>(parse(Language::tile, source)));
}

// A program's tensors in the device's memory.
struct OnDevice {
  OnDevice(const char* text, DType type, const std::vector<Shape>& shapes)
      : engine(gpu_engine()), program(loaded(engine, text)) {
    std::vector<InputLayout> layouts;
    for (const Shape& shape : shapes) layouts.push_back({{type, shape}, {}});
    executable = program->executable(layouts);
    size_t bytes = 0;
    for (const Shape& shape : shapes) {
      bytes = std::max(bytes, static_cast<size_t>(element_count(shape)) * byte_size(type));
    }
    for (auto& m : memory) {
      m.emplace(*engine->session(), bytes, nullptr);
      std::vector<std::byte> zeros(bytes);
      engine->session()->copy_in(m->data(), zeros.data(), bytes, nullptr);
    }
    inputs = {memory[0]->data(), memory[1]->data()};
    outputs = {memory[2]->data()};
  }
  std::shared_ptr<Engine> engine;
  std::shared_ptr<LoadedProgram> program;
  std::shared_ptr<const Executable> executable;
  std::array<std::optional<DeviceMemory>, 3> memory;
  std::array<void*, 2> inputs{};
  std::array<void*, 1> outputs{};
  virtual ~OnDevice() = default;
};

// Runs `launch` in batches; ends with an error where there is no GPU.
template <class Make, class Launch>
void launches(benchmark::State& state, const Make& make, const Launch& launch) {
  try {
    auto made = make();
    launch(*made);
    launch(*made);
    int given = 0;
    for (auto _ : state) {
      launch(*made);
      if (++given % kBatch != 0) continue;
      state.PauseTiming();
      made->engine->session()->finish();
      state.ResumeTiming();
    }
    made->engine->session()->finish();
  } catch (const Failure& failure) {
    state.SkipWithError(failure.what());
  }
}

std::unique_ptr<OnDevice> addition() {
  Shape shape{kElements};
  return std::make_unique<OnDevice>(kAdd, DType::f32, std::vector<Shape>{shape, shape});
}
std::unique_ptr<OnDevice> chain() {
  Shape shape{kElements};
  return std::make_unique<OnDevice>(kChain, DType::f32, std::vector<Shape>{shape, shape});
}

// The same where the calling thread has the GPU's context already, as in a program that uses CUDA
// beside us.
struct InContext : OnDevice {
  explicit InContext(const Shape& shape)
      : OnDevice(kAdd, DType::f32, {shape, shape}),
        device(cuda::Driver::open(), 0),
        current(device) {}
  cuda::Device device;
  cuda::Current current;
};
std::unique_ptr<OnDevice> addition_in_context() {
  return std::make_unique<InContext>(Shape{kElements});
}

// The driver's call alone, for a kernel with as many arguments.
struct Raw {
  Raw() : engine(gpu_engine()), device(cuda::Driver::open(), 0), current(device) {
    const cuda::Driver& driver = device.driver();
    cuda::Compiled code = cuda::Nvrtc::open(driver.version())
                              ->compile(
                                  "extern \"C\" __global__ void add(float* x, float* y, float* o) "
                                  "{ int i = blockIdx.x * blockDim.x + threadIdx.x; "
                                  "o[i] = x[i] + y[i]; }",
                                  device.target().features);
    driver.check(driver.cuModuleLoadData_(&module, code.image.data()), "loading a kernel");
    driver.check(driver.cuModuleGetFunction_(&function, module, "add"), "finding a kernel");
    driver.check(driver.cuStreamCreate_(&stream, CU_STREAM_DEFAULT), "making a stream");
    for (auto& m : memory) m.emplace(*engine->session(), kElements * sizeof(float), nullptr);
    engine->session()->finish();
  }
  ~Raw() {
    device.driver().cuStreamDestroy_(stream);
    device.driver().cuModuleUnload_(module);
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;
  void launch() {
    std::array<void*, 3> pointers = {memory[0]->data(), memory[1]->data(), memory[2]->data()};
    std::array<void*, 3> arguments = {&pointers[0], &pointers[1], &pointers[2]};
    CUlaunchConfig config{};
    config.gridDimX = kElements / 256;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 256;
    config.hStream = stream;
    device.driver().cuLaunchKernelEx_(&config, function, arguments.data(), nullptr);
  }
  std::shared_ptr<Engine> engine;
  cuda::Device device;
  cuda::Current current;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUstream stream = nullptr;
  std::array<std::optional<DeviceMemory>, 3> memory;
};

void device_launch_by_the_driver_alone(benchmark::State& state) {
  launches(state, [] { return std::make_unique<Raw>(); }, [](Raw& raw) { raw.launch(); });
}
BENCHMARK(device_launch_by_the_driver_alone);

void device_launch_of_pointers(benchmark::State& state, std::unique_ptr<OnDevice> (*make)()) {
  launches(state, make, [](OnDevice& d) { run_in_place(*d.executable, d.inputs, d.outputs, {}); });
}
BENCHMARK_CAPTURE(device_launch_of_pointers, alone, addition);
BENCHMARK_CAPTURE(device_launch_of_pointers, in_a_context, addition_in_context);

void device_tile_program_run(benchmark::State& state, std::unique_ptr<OnDevice> (*make)()) {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = "cuda";
  options.cache_mode = "off";
  tile_engine* engine = nullptr;
  tile_program* program = nullptr;
  tile_error* error = tile_engine_create(&options, &engine);
  if (error == nullptr) {
    error = tile_program_parse(engine, "tile", nullptr, kAdd, std::string(kAdd).size(), &program);
  }
  if (error != nullptr) {
    state.SkipWithError(tile_error_message(error));
    tile_error_free(error);
    tile_engine_free(engine);
    return;
  }
  launches(state, make, [&](OnDevice& d) {
    int64_t shape[1] = {kElements};
    DLTensor x{d.inputs[0], {kDLCUDA, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0}, y = x, o = x;
    y.data = d.inputs[1];
    o.data = d.outputs[0];
    const DLTensor* inputs[2] = {&x, &y};
    DLTensor* outputs[1] = {&o};
    tile_error* failed = tile_program_run(program, inputs, 2, outputs, 1, nullptr);
    if (failed == nullptr) return;
    Diagnostic d2{Stage::run, "run", tile_error_message(failed), "", {}};
    tile_error_free(failed);
    throw Failure(d2);
  });
  tile_program_free(program);
  tile_engine_free(engine);
}
BENCHMARK_CAPTURE(device_tile_program_run, alone, addition);
BENCHMARK_CAPTURE(device_tile_program_run, in_a_context, addition_in_context);

// Eight dependent kernels from the call to their end: as one recording, and one by one.
void whole_chain(benchmark::State& state, bool recorded) {
  try {
    std::unique_ptr<OnDevice> d = chain();
    RunOptions options;
    options.recorded = recorded;
    auto once = [&] {
      run_in_place(*d->executable, d->inputs, d->outputs, options);
      d->engine->session()->synchronize(nullptr);
    };
    for (int i = 0; i < 3; ++i) once();
    for (auto _ : state) once();
    state.counters["kernels"] = static_cast<double>(d->executable->launches.size());
  } catch (const Failure& failure) {
    state.SkipWithError(failure.what());
  }
}
BENCHMARK_CAPTURE(whole_chain, as_a_graph, true)->Unit(benchmark::kMicrosecond)->UseRealTime();
BENCHMARK_CAPTURE(whole_chain, by_launches, false)->Unit(benchmark::kMicrosecond)->UseRealTime();

// From the text to the first result on an engine that is there; the device is warm.
void device_first_result(benchmark::State& state, const char* text, DType type, int64_t size,
                         bool cached) {
  try {
    TemporaryFolder folder;
    bool vectors = text == kAdd;
    Shape shape = vectors ? Shape{size} : Shape{size, size};
    std::string cache = cached ? folder.path() : "";
    auto warm = std::make_unique<OnDevice>(text, type, std::vector<Shape>{shape, shape});
    std::vector<InputLayout> layouts(2, InputLayout{{type, shape}, {}});
    if (cached) loaded(gpu_engine(cache), text)->executable(layouts);
    for (auto _ : state) {
      std::shared_ptr<Engine> engine = gpu_engine(cache);
      std::shared_ptr<const Executable> e = loaded(engine, text)->executable(layouts);
      run_in_place(*e, warm->inputs, warm->outputs, {});
      engine->session()->finish();
    }
  } catch (const Failure& failure) {
    state.SkipWithError(failure.what());
  }
}
constexpr const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";
BENCHMARK_CAPTURE(device_first_result, simple, kAdd, DType::f32, 1 << 20, false)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(device_first_result, product_f32, kProduct, DType::f32, 1024, false)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(device_first_result, tensor_cores, kProduct, DType::bf16, 1024, false)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(device_first_result, simple_from_disk, kAdd, DType::f32, 1 << 20, true)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(device_first_result, tensor_cores_from_disk, kProduct, DType::bf16, 1024, true)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
