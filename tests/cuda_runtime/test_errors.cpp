// Every way in which a driver, a device or NVRTC can fail gives a clear error and loses nothing.
#include <gmock/gmock.h>

#include "tests/cuda_runtime/fake_device.h"

namespace tile::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kDouble = "function (A[N]) -> (B) { B[i: N] = +(A[i] + A[i]); }";

class Errors : public OnFakeDevice {};

TEST_F(Errors, MissingDriverIsNamed) {
  setenv("TILE_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  Diagnostic d = failure_of([] { cuda_engine(); });
  EXPECT_EQ(d.code, "driver");
  EXPECT_THAT(d.message, HasSubstr("/nowhere/libcuda.so.1"));
  EXPECT_THAT(d.hint, HasSubstr("cpu"));
}

TEST_F(Errors, OldDriverSaysWhatIsNeeded) {
  fake_driver().set(11080, 1);
  Diagnostic d = failure_of([] { cuda_engine(); });
  EXPECT_EQ(d.code, "driver");
  EXPECT_THAT(d.message, HasSubstr("11.8"));
  EXPECT_THAT(d.message, HasSubstr("12.0"));
}

TEST_F(Errors, DriverOlderThanNvrtcIsSaid) {
  fake_driver().set(12040, 1);
  Diagnostic d = failure_of([] { cuda_engine(); });
  EXPECT_EQ(d.code, "nvrtc");
  EXPECT_THAT(d.message, HasSubstr("CUDA 13"));
  EXPECT_THAT(d.message, HasSubstr("CUDA 12"));
}

TEST_F(Errors, NoDeviceIsSaidAndAutoTakesTheCpu) {
  fake_driver().set(13000, 0);
  EXPECT_EQ(failure_of([] { cuda_engine(); }).code, "device");
  EngineOptions options;
  options.cache_mode = "off";
  EXPECT_THAT(Engine::create(options)->device(), HasSubstr("cpu"));
}

TEST_F(Errors, AutoTakesTheDevice) {
  EngineOptions options;
  options.cache_mode = "off";
  EXPECT_THAT(Engine::create(options)->device(), HasSubstr("cuda"));
}

TEST_F(Errors, MissingNvrtcIsNamed) {
  setenv("TILE_NVRTC", "/nowhere/libnvrtc.so", 1);
  Diagnostic d = failure_of([] { cuda_engine(); });
  EXPECT_EQ(d.code, "nvrtc");
  EXPECT_EQ(d.stage, Stage::compile);
  EXPECT_THAT(d.message, HasSubstr("/nowhere/libnvrtc.so"));
}

TEST_F(Errors, EveryCallOfStartingMayFail) {
  for (const char* name :
       {"cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute",
        "cuDevicePrimaryCtxRetain", "cuMemPoolCreate", "cuStreamCreate"}) {
    fake_driver().fail(name, CUDA_ERROR_INVALID_VALUE, 0);
    EXPECT_NE(failure_of([] { cuda_engine(); }).code, "") << name;
    EXPECT_EQ(fake_driver().live(), 0) << name;
  }
}

TEST_F(Errors, OutOfMemoryIsToldAndTheNextRunWorks) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {100});
  EXPECT_EQ(run_on(engine, kDouble, {view(a)})[0].at(7).f, 14);
  int live = fake_driver().live();
  // Twice: the pool is trimmed and asked again before the run gives up.
  for (int allocation = 0; allocation < 2; ++allocation) {
    fake_driver().fail("cuMemAllocFromPoolAsync", CUDA_ERROR_OUT_OF_MEMORY, allocation);
    EXPECT_EQ(run_on(engine, kDouble, {view(a)})[0].at(7).f, 14);
  }
  fake_driver().break_all(CUDA_ERROR_OUT_OF_MEMORY);
  Diagnostic d = failure_of([&] { run_on(engine, kDouble, {view(a)}); });
  EXPECT_EQ(d.stage, Stage::run);
  EXPECT_EQ(d.code, "memory");
  EXPECT_THAT(d.message, HasSubstr("out of memory"));
  fake_driver().break_all(0);
  EXPECT_EQ(fake_driver().live(), live);
  EXPECT_EQ(run_on(engine, kDouble, {view(a)})[0].at(7).f, 14);
}

TEST_F(Errors, MemoryLimitHolds) {
  std::shared_ptr<Engine> engine = cuda_engine(1000);
  HostTensor small = ramp(DType::f32, {100}), large = ramp(DType::f32, {200});
  EXPECT_EQ(run_on(engine, kDouble, {view(small)})[0].at(9).f, 18);
  Diagnostic d = failure_of([&] { run_on(engine, kDouble, {view(large)}); });
  EXPECT_EQ(d.code, "memory");
  EXPECT_THAT(d.message, HasSubstr("limit is 1000"));
  EXPECT_EQ(run_on(engine, kDouble, {view(small)})[0].at(9).f, 18);
}

TEST_F(Errors, OfMemoryTheTensorIsNamedAtItsPlace) {
  HostTensor a = ramp(DType::f32, {50});
  const char* text =
      "function (A[N]) -> (O) {\n  B[i, j: N, N] = +(A[i] * A[j]);\n  C = sort(B, 1);\n"
      "  O[i: N] = >(C[i, j]);\n}\n";
  Diagnostic temporary = failure_of([&] { run_on(cuda_engine(5000), text, {view(a)}); });
  EXPECT_EQ(temporary.code, "memory");
  EXPECT_THAT(temporary.message, HasSubstr("the tensor B, f32[50, 50], takes 10000 bytes"));
  EXPECT_EQ(std::string_view(text).substr(temporary.span.begin, 1), "B");
  text = "function (A[N]) -> (O) {\n  O[i, j: N, N] = +(A[i] * A[j]);\n}\n";
  Diagnostic output = failure_of([&] { run_on(cuda_engine(5000), text, {view(a)}); });
  EXPECT_EQ(output.code, "memory");
  EXPECT_THAT(output.message, HasSubstr("the output O is f32[50, 50], 10000 bytes: "));
  EXPECT_EQ(std::string_view(text).substr(output.span.begin, 1), "O");
}

TEST_F(Errors, EveryCallOfARunMayFail) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {100});
  run_on(engine, kDouble, {view(a)});
  int live = fake_driver().live();
  for (const char* name : {"cuMemAllocFromPoolAsync", "cuMemcpyHtoDAsync", "cuLaunchKernelEx",
                           "cuMemcpyDtoHAsync", "cuStreamSynchronize"}) {
    fake_driver().fail(name, CUDA_ERROR_INVALID_VALUE, 0);
    Diagnostic d = failure_of([&] { run_on(engine, kDouble, {view(a)}); });
    EXPECT_EQ(d.stage, Stage::run) << name;
    EXPECT_EQ(d.code, "cuda") << name;
    EXPECT_EQ(fake_driver().live(), live) << name;
    EXPECT_EQ(run_on(engine, kDouble, {view(a)})[0].at(3).f, 6) << name;
  }
}

TEST_F(Errors, LoadingTheCodeMayFail) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {100});
  int live = fake_driver().live();
  for (const char* name : {"cuModuleLoadData", "cuModuleGetFunction"}) {
    fake_driver().fail(name, CUDA_ERROR_INVALID_VALUE, 0);
    EXPECT_EQ(failure_of([&] { run_on(engine, kDouble, {view(a)}); }).code, "cuda") << name;
    EXPECT_EQ(fake_driver().live(), live) << name;
  }
}

TEST_F(Errors, FailedLaunchNamesItsKernel) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {100});
  std::shared_ptr<LoadedProgram> program = program_of(engine, kDouble);
  std::vector<TensorView> inputs = {view(a)};
  std::string kernel =
      program->executable(std::span<const TensorView>(inputs))->launches[0].nest->name;
  fake_driver().fail("cuLaunchKernelEx", CUDA_ERROR_INVALID_VALUE, 0);
  Diagnostic d = failure_of([&] { run_on(engine, kDouble, {view(a)}); });
  EXPECT_THAT(d.message, HasSubstr("launching kernel " + kernel));
}

// A kernel that fails on the device is told by a later call, which names it.
TEST_F(Errors, ErrorOfAnEarlierLaunchIsToldLater) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {128}), b(DType::f32, {128});
  std::vector<TensorView> inputs = {view(a, Memory::device)}, outputs = {view(b, Memory::device)};
  std::shared_ptr<const Executable> e = program_of(engine, kDouble)->executable(std::span(inputs));
  run(*e, inputs, outputs);
  fake_driver().break_all(CUDA_ERROR_ILLEGAL_ADDRESS);
  for (auto work : {std::function<void()>([&] { run(*e, inputs, outputs); }),
                    std::function<void()>([&] { engine->session()->synchronize(nullptr); })}) {
    Diagnostic d = failure_of(work);
    EXPECT_EQ(d.code, "launch");
    EXPECT_THAT(d.message, HasSubstr("kernel " + e->launches[0].nest->name));
    EXPECT_THAT(d.message, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  }
}

TEST_F(Errors, TextThatNvrtcRefusesComesWithItsLog) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {100});
  setenv("TILE_FAKE_NVRTC_REFUSES", "1", 1);
  Diagnostic d = failure_of([&] { run_on(engine, kDouble, {view(a)}); });
  unsetenv("TILE_FAKE_NVRTC_REFUSES");
  EXPECT_EQ(d.stage, Stage::compile);
  EXPECT_EQ(d.code, "nvrtc");
  EXPECT_THAT(d.message, HasSubstr("refused as the test asked"));
  // The generated text's second line is shown.
  EXPECT_THAT(d.message, HasSubstr("\n> "));
}

TEST_F(Errors, CodeForAnotherGpuIsNotRun) {
  EngineOptions options;
  options.backend = "cuda";
  options.features = "sm_90a";
  options.cache_mode = "off";
  std::shared_ptr<Engine> engine = Engine::create(options);
  HostTensor a = ramp(DType::f32, {100});
  EXPECT_EQ(failure_of([&] { run_on(engine, kDouble, {view(a)}); }).code, "target");
  options.features = "sm_70";
  EXPECT_EQ(failure_of([&] { Engine::create(options); }).code, "target");
}

TEST_F(Errors, GpuThatIsNotThereIsSaid) {
  fake_driver().set(13000, 2);
  Diagnostic d = failure_of([&] { cuda_engine(0, "cuda:2"); });
  EXPECT_EQ(d.code, "device");
  EXPECT_THAT(d.message, HasSubstr("no GPU 2; the driver finds 2"));
  for (const char* name : {"cuda:", "cuda:x", "cuda:-1", "cuda:1x"}) {
    EXPECT_EQ(failure_of([&] { cuda_engine(0, name); }).code, "argument") << name;
  }
}

TEST_F(Errors, TensorsOfOtherDevicesAreRefused) {
  HostTensor a = ramp(DType::f32, {100});
  TensorView other = view(a, Memory::device);
  other.device = 1;
  EXPECT_THAT(failure_of([&] { run_on(cuda_engine(), kDouble, {other}); }).message,
              HasSubstr("GPU 1"));
  fake_driver().set(13000, 2);
  Diagnostic mixed =
      failure_of([&] { run_on(cuda_engine(0, "cuda:1"), kDouble, {view(a, Memory::device)}); });
  EXPECT_THAT(mixed.message, HasSubstr("GPU 0; this engine runs on GPU 1"));
  EXPECT_THAT(mixed.hint, HasSubstr("cuda:0"));
  EngineOptions options;
  options.backend = "cpu";
  options.cache_mode = "off";
  Diagnostic d =
      failure_of([&] { run_on(Engine::create(options), kDouble, {view(a, Memory::device)}); });
  EXPECT_EQ(d.code, "argument");
  EXPECT_THAT(d.message, HasSubstr("GPU 0"));
}

}  // namespace
}  // namespace tile::test
