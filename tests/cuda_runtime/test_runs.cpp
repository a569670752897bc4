// Runs on the fake device: where tensors are, what is copied, what waits.
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>

#include "core/schedule/space/candidates.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/copy_nest.h"
#include "runtime/engine/tuning/kernel_timer.h"
#include "tests/cuda_runtime/fake_device.h"
#include "tile/tile.h"

namespace tile::test {
namespace {

constexpr const char* kDouble =
    "function (A[M, N]) -> (B) { B[i, j: M, N] = +(A[i, j] + A[i, j]); }";

class Runs : public OnFakeDevice {};

int copies() {
  int count = 0;
  for (const char* name : {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync"}) {
    count += fake_driver().calls(name);
  }
  return count;
}

TEST_F(Runs, DeviceTensorsAreUsedWhereTheyAreAndNothingWaits) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {8, 16}), b(DType::f32, {8, 16});
  std::vector<TensorView> inputs = {view(a, Memory::device)}, outputs = {view(b, Memory::device)};
  std::shared_ptr<const Executable> e = program_of(engine, kDouble)->executable(std::span(inputs));
  int before = copies(), waits = fake_driver().calls("cuStreamSynchronize"),
      allocations = fake_driver().calls("cuMemAllocFromPoolAsync");
  run(*e, inputs, outputs);
  EXPECT_EQ(copies(), before);
  EXPECT_EQ(fake_driver().calls("cuStreamSynchronize"), waits);
  EXPECT_EQ(fake_driver().calls("cuMemAllocFromPoolAsync"), allocations);
  for (int64_t i = 0; i < b.count(); ++i) EXPECT_EQ(b.at(i).f, 2.0 * static_cast<double>(i));
}

// What the driver tells of a device stands in the place of the data sheet's; rates that go with the
// clock follow it.
TEST_F(Runs, TheTargetIsTheDevices) {
  Target target = cuda_engine()->target(), sheet = a100_target();
  EXPECT_EQ(target.gpu.multiprocessors, 4);
  EXPECT_EQ(target.l2_bytes, 40 << 20);
  EXPECT_EQ(target.gpu.blocks_per_multiprocessor, 24);
  EXPECT_DOUBLE_EQ(target.gpu.gigahertz, 1.4);
  EXPECT_DOUBLE_EQ(target.fma_per_ns, sheet.fma_per_ns * 1.4 / sheet.gpu.gigahertz);
  EXPECT_DOUBLE_EQ(target.gpu.matrix_per_ns, sheet.gpu.matrix_per_ns * 1.4 / sheet.gpu.gigahertz);
  EXPECT_DOUBLE_EQ(target.dram_bytes_per_ns, 2 * 1.215 * 5120 / 8 / 4);
  EXPECT_DOUBLE_EQ(lanes_per_clock(target), 64);
}

// Each in the context of its device, turn by turn.
TEST_F(Runs, EnginesOfTwoDevices) {
  fake_driver().set(13000, 2);
  std::shared_ptr<Engine> engines[] = {cuda_engine(0, "cuda:0"), cuda_engine(0, "cuda:1")};
  HostTensor a = ramp(DType::f32, {8, 16});
  for (int turn = 0; turn < 4; ++turn) {
    HostTensor b(DType::f32, {8, 16});
    std::vector<TensorView> inputs = {view(a, Memory::device)}, outputs = {view(b, Memory::device)};
    inputs[0].device = outputs[0].device = turn % 2;
    const std::shared_ptr<Engine>& engine = engines[turn % 2];
    EXPECT_EQ(engine->ordinal(), turn % 2);
    std::shared_ptr<const Executable> e =
        program_of(engine, kDouble)->executable(std::span(inputs));
    check_tensors(*e, inputs, outputs);
    run(*e, inputs, outputs);
    for (int64_t i = 0; i < b.count(); ++i) EXPECT_EQ(b.at(i).f, 2.0 * static_cast<double>(i));
  }
}

tile_error* create_engine(tile_engine*& engine) {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = "cuda";
  options.cache_mode = "off";
  return tile_engine_create(&options, &engine);
}

// The first call compiles, the others go the short way; a misaligned tensor goes the long one.
TEST_F(Runs, CInterfaceTakesDeviceTensorsAsTheyAre) {
  tile_engine* engine = nullptr;
  tile_program* program = nullptr;
  ASSERT_EQ(create_engine(engine), nullptr);
  ASSERT_EQ(tile_program_parse(engine, "tile", nullptr, kDouble, strlen(kDouble), &program),
            nullptr);
  alignas(16) std::array<float, 36> a{}, b{};
  int64_t shape[2] = {4, 8};
  DLTensor in{a.data(), {kDLCUDA, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  DLTensor out = in;
  out.data = b.data();
  const DLTensor* inputs[] = {&in};
  DLTensor* outputs[] = {&out};
  tile_run_options on_stream{};
  on_stream.struct_size = sizeof on_stream;
  on_stream.stream = CU_STREAM_PER_THREAD;
  for (size_t turn = 0; turn < 4; ++turn) {
    size_t shift = turn == 3 ? 1 : 0;
    in.data = a.data() + shift;
    for (size_t i = 0; i < 32; ++i) a[i + shift] = static_cast<float>(i + turn);
    const tile_run_options* run_options = turn == 2 ? &on_stream : nullptr;
    int streams = fake_driver().calls("stream of the thread");
    ASSERT_EQ(tile_program_run(program, inputs, 1, outputs, 1, run_options), nullptr);
    EXPECT_EQ(fake_driver().calls("stream of the thread"), streams + (turn == 2 ? 1 : 0));
    for (size_t i = 0; i < 32; ++i) EXPECT_EQ(b[i], 2 * static_cast<float>(i + turn));
  }
  in.device.device_id = 1;
  tile_error* error = tile_program_run(program, inputs, 1, outputs, 1, nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_THAT(tile_error_message(error), ::testing::HasSubstr("GPU 1"));
  tile_error_free(error);
  tile_program_free(program);
  tile_engine_free(engine);
}

// A constant is copied on the device once, from wherever it is, with its strides; later runs copy
// nothing and do not look at the tensor that was declared.
TEST_F(Runs, ConstantInputsAreCopiedToTheDeviceOnce) {
  std::shared_ptr<Engine> engine = cuda_engine();
  constexpr const char* kAdd = "function (A[M, N], W[M, N]) -> (B) { B = A + W; }";
  for (Memory where : {Memory::host, Memory::device}) {
    HostTensor a = ramp(DType::f32, {8, 16}), w = ramp(DType::f32, {16, 8});
    HostTensor b(DType::f32, {8, 16});
    std::vector<TensorView> inputs = {view(a, Memory::device), view(w, where)};
    std::vector<TensorView> outputs = {view(b, Memory::device)};
    inputs[1].shape = {8, 16};
    inputs[1].strides = {1, 8};
    const size_t constants[] = {1};
    std::shared_ptr<const Executable> e =
        program_of(engine, kAdd)->executable(std::span<const TensorView>(inputs), constants);
    std::fill(w.bytes.begin(), w.bytes.end(), std::byte{0x7e});
    inputs[1] = {};
    check_tensors(*e, inputs, outputs);
    int before = copies();
    run(*e, inputs, outputs);
    EXPECT_EQ(copies(), before);
    for (int64_t i = 0; i < 8; ++i) {
      for (int64_t j = 0; j < 16; ++j) {
        EXPECT_EQ(b.at(16 * i + j).f, static_cast<double>(16 * i + j + 8 * j + i));
      }
    }
  }
}

TEST_F(Runs, CInterfaceTakesConstantsOfTheDevice) {
  tile_engine* engine = nullptr;
  tile_program* program = nullptr;
  ASSERT_EQ(create_engine(engine), nullptr);
  constexpr const char* kAdd = "function (A[M, N], W[M, N]) -> (B) { B = A + W; }";
  ASSERT_EQ(tile_program_parse(engine, "tile", nullptr, kAdd, strlen(kAdd), &program), nullptr);
  alignas(16) std::array<float, 32> a{}, w{}, b{};
  w.fill(3);
  int64_t shape[2] = {4, 8};
  DLTensor in{a.data(), {kDLCUDA, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  DLTensor weights = in, out = in;
  weights.data = w.data();
  out.data = b.data();
  const DLTensor* inputs[] = {&in, &weights};
  DLTensor* outputs[] = {&out};
  const size_t constants[] = {1};
  tile_compile_options declared{};
  declared.struct_size = sizeof declared;
  declared.constants = constants;
  declared.constant_count = 1;
  tile_executable* executable = nullptr;
  ASSERT_EQ(tile_program_compile_with(program, inputs, 2, &declared, &executable), nullptr);
  w.fill(100);
  for (const DLTensor* second :
       {static_cast<const DLTensor*>(&weights), static_cast<const DLTensor*>(nullptr)}) {
    inputs[1] = second;
    b.fill(0);
    ASSERT_EQ(tile_executable_run(executable, inputs, 2, outputs, 1, nullptr), nullptr);
    EXPECT_EQ(b[5], 3);
  }
  tile_executable_free(executable);
  tile_program_free(program);
  tile_engine_free(engine);
}

constexpr const char* kSeveralKernels =
    "function (A[M, N]) -> (T) { S[j: N] = +(A[i, j]); T[i: M] = >(A[i, j] * S[j]); }";

class Replays : public OnFakeDevice {
 protected:
  void SetUp() override {
    OnFakeDevice::SetUp();
    engine_ = cuda_engine();
    program_ = program_of(engine_, kSeveralKernels);
  }
  void TearDown() override {
    program_.reset();
    engine_.reset();
    OnFakeDevice::TearDown();
  }
  // Runs on tensors with other values and expects the right result.
  void run_right(HostTensor& a, HostTensor& t, void* stream = nullptr) {
    ++turn_;
    std::vector<double> sums(16, 0);
    for (int64_t i = 0; i < a.count(); ++i) {
      a.set(i, real_scalar(static_cast<double>((i * 7 + turn_) % 5), DType::f32));
      sums[static_cast<size_t>(i % 16)] += a.at(i).f;
    }
    std::vector<TensorView> inputs = {view(a, Memory::device)}, outputs = {view(t, Memory::device)};
    RunOptions options;
    options.stream = stream;
    executable_ = program_->executable(std::span<const TensorView>(inputs));
    run(*executable_, inputs, outputs, options);
    for (int64_t i = 0; i < 8; ++i) {
      double most = 0;
      for (int64_t j = 0; j < 16; ++j) {
        most = std::max(most, a.at(i * 16 + j).f * sums[static_cast<size_t>(j)]);
      }
      EXPECT_EQ(t.at(i).f, most) << "turn " << turn_ << ", row " << i;
    }
    executable_.reset();
  }
  static int graphs() { return fake_driver().calls("cuGraphLaunch"); }

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<LoadedProgram> program_;
  std::shared_ptr<const Executable> executable_;
  int turn_ = 0;
};

TEST_F(Replays, SameTensorsAreGivenToTheDeviceAsOneGraph) {
  HostTensor a(DType::f32, {8, 16}), t(DType::f32, {8});
  int before = graphs();
  run_right(a, t);
  EXPECT_EQ(graphs(), before);
  run_right(a, t);  // recorded and run
  int launches = fake_driver().calls("cuLaunchKernelEx");
  int allocations = fake_driver().calls("cuMemAllocFromPoolAsync");
  int waits = fake_driver().calls("cuStreamSynchronize");
  CUstream other = reinterpret_cast<CUstream>(&a);
  for (void* stream : {static_cast<void*>(nullptr), static_cast<void*>(other)}) {
    run_right(a, t, stream);
  }
  EXPECT_EQ(graphs(), before + 3);
  EXPECT_EQ(fake_driver().calls("cuLaunchKernelEx"), launches);
  EXPECT_EQ(fake_driver().calls("cuMemAllocFromPoolAsync"), allocations);
  EXPECT_EQ(fake_driver().calls("cuStreamSynchronize"), waits);
}

TEST_F(Replays, OtherTensorsAreLaunchedKernelByKernel) {
  std::vector<HostTensor> a, t;
  for (int i = 0; i < 6; ++i) {
    a.emplace_back(DType::f32, Shape{8, 16});
    t.emplace_back(DType::f32, Shape{8});
  }
  int before = graphs();
  for (size_t i = 0; i < a.size(); ++i) run_right(a[i], t[i]);
  EXPECT_EQ(graphs(), before);
  for (int turn = 0; turn < 3; ++turn) {
    for (size_t i = 0; i < a.size(); ++i) run_right(a[i], t[(i + static_cast<size_t>(turn)) % 6]);
  }
}

TEST_F(Replays, WhatCannotBeRecordedIsLaunched) {
  HostTensor a(DType::f32, {8, 16}), t(DType::f32, {8});
  fake_driver().fail("cuGraphInstantiateWithFlags", CUDA_ERROR_NOT_SUPPORTED, 0);
  int before = graphs();
  for (int i = 0; i < 4; ++i) run_right(a, t);
  EXPECT_EQ(graphs(), before);
}

// A recording of the caller's, which may run while other runs do: with temporaries of its own.
TEST_F(Replays, RecordingsOfTheCallersHaveTemporariesOfTheirOwn) {
  HostTensor a(DType::f32, {8, 16}), t(DType::f32, {8});
  for (int i = 0; i < 2; ++i) run_right(a, t);  // the library has a recording for these tensors
  std::shared_ptr<const Executable> e;
  std::vector<TensorView> inputs = {view(a, Memory::device)}, outputs = {view(t, Memory::device)};
  e = program_->executable(std::span<const TensorView>(inputs));
  std::vector<float> expected;
  run(*e, inputs, outputs);
  for (int64_t i = 0; i < 8; ++i) expected.push_back(static_cast<float>(t.at(i).f));
  RunOptions options;
  options.stream = &a;
  int before = graphs();
  fake_driver().record(&a);
  for (int64_t i = 0; i < 8; ++i) t.set(i, real_scalar(-1, DType::f32));
  run(*e, inputs, outputs, options);
  void* recording = fake_driver().recorded(&a);
  ASSERT_NE(recording, nullptr);
  EXPECT_EQ(graphs(), before);
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(t.at(i).f, -1) << "nothing runs while it is recorded";
  for (int turn = 0; turn < 2; ++turn) {
    for (int64_t i = 0; i < 8; ++i) t.set(i, real_scalar(-1, DType::f32));
    fake_driver().run_recording(recording);
    for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(t.at(i).f, expected[static_cast<size_t>(i)]);
  }
  fake_driver().drop_recording(recording);
  run_right(a, t);
}

TEST_F(Replays, RecordingsOfTheCallersTakeNoHostTensors) {
  HostTensor a(DType::f32, {8, 16}), t(DType::f32, {8});
  std::vector<TensorView> inputs = {view(a, Memory::host)}, outputs = {view(t, Memory::device)};
  std::shared_ptr<const Executable> e = program_->executable(std::span<const TensorView>(inputs));
  RunOptions options;
  options.stream = &a;
  fake_driver().record(&a);
  Diagnostic d = failure_of([&] { run(*e, inputs, outputs, options); });
  EXPECT_EQ(d.code, "argument");
  EXPECT_THAT(d.message, ::testing::HasSubstr("recorded"));
  fake_driver().drop_recording(fake_driver().recorded(&a));
}

TEST_F(Replays, FailureOfAGraphNamesItsKernels) {
  HostTensor a(DType::f32, {8, 16}), t(DType::f32, {8});
  for (int i = 0; i < 2; ++i) run_right(a, t);
  engine_->session()->synchronize(nullptr);
  run_right(a, t);
  fake_driver().break_all(CUDA_ERROR_ILLEGAL_ADDRESS);
  Diagnostic d = failure_of([&] { engine_->session()->synchronize(nullptr); });
  EXPECT_EQ(d.code, "launch");
  EXPECT_THAT(d.message, ::testing::HasSubstr("kernels S, T"));
  fake_driver().break_all(0);
}

TEST_F(Runs, MisalignedDeviceTensorsAreStaged) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {4, 6}), room(DType::f32, {30});
  HostTensor shifted = ramp(DType::f32, {25});
  TensorView in = view(a, Memory::device), out = view(a, Memory::device);
  in.data = shifted.bytes.data() + 4;  // 1, 2, 3 …
  out.data = room.bytes.data() + 4;
  std::vector<TensorView> inputs = {in}, outputs = {out};
  std::shared_ptr<const Executable> e = program_of(engine, kDouble)->executable(std::span(inputs));
  run(*e, inputs, outputs);
  EXPECT_EQ(room.at(0).f, 0);
  for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(room.at(i + 1).f, 2.0 * static_cast<double>(i + 1));
  EXPECT_EQ(room.at(25).f, 0);
}

// Transposed, broadcast and reversed inputs, in both memories.
TEST_F(Runs, StridedInputs) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {4, 6});
  struct Case {
    std::vector<int64_t> strides;
    int64_t first;
  };
  for (const Case& c : {Case{{1, 4}, 0}, Case{{0, 1}, 0}, Case{{-6, 1}, 18}, Case{{6, -1}, 5}}) {
    for (Memory memory : {Memory::host, Memory::device}) {
      TensorView in = view(a, memory);
      in.strides = c.strides;
      in.data = a.bytes.data() + 4 * c.first;
      HostTensor got = run_on(engine, kDouble, {in})[0];
      for (int64_t i = 0; i < 4; ++i) {
        for (int64_t j = 0; j < 6; ++j) {
          auto want = static_cast<double>(c.first + i * c.strides[0] + j * c.strides[1]);
          EXPECT_EQ(got.at(i * 6 + j).f, 2 * want) << i << " " << j;
        }
      }
    }
  }
}

// A reshape takes dense elements only: the engine copies on the device first.
TEST_F(Runs, StridedInputOfAViewIsMadeDenseOnTheDevice) {
  std::shared_ptr<Engine> engine = cuda_engine();
  const char* text =
      "function (A[M, N]) -> (B) { R = reshape(A, M * N); B[i: M * N] = +(R[i] + R[i]); }";
  HostTensor a = ramp(DType::f32, {6, 4});
  TensorView in = view(a, Memory::device);
  in.shape = {4, 6};
  in.strides = {1, 4};
  HostTensor got = run_on(engine, text, {in})[0];
  for (int64_t i = 0; i < 24; ++i) {
    EXPECT_EQ(got.at(i).f, 2.0 * static_cast<double>(i / 6 + i % 6 * 4));
  }
}

TEST_F(Runs, StridedOutputs) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {4, 6});
  std::vector<TensorView> inputs = {view(a)};
  std::shared_ptr<const Executable> e = program_of(engine, kDouble)->executable(std::span(inputs));
  for (Memory memory : {Memory::host, Memory::device}) {
    HostTensor b(DType::f32, {6, 8});
    TensorView out = view(a, memory);
    out.data = b.bytes.data();
    out.strides = {1, 8};
    run(*e, inputs, std::vector<TensorView>{out});
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < 6; ++j)
        EXPECT_EQ(b.at(i + 8 * j).f, 2.0 * static_cast<double>(i * 6 + j));
    }
    EXPECT_EQ(b.at(4).f, 0);
  }
}

// Nests store along strides that are not negative; the copy walks both sides from the other end.
TEST_F(Runs, BackwardOutputs) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {4, 6});
  std::vector<TensorView> inputs = {view(a)};
  std::shared_ptr<const Executable> e = program_of(engine, kDouble)->executable(std::span(inputs));
  for (Memory memory : {Memory::host, Memory::device}) {
    for (const std::vector<int64_t>& strides :
         std::vector<std::vector<int64_t>>{{-8, 1}, {8, -1}, {-1, -8}}) {
      HostTensor b(DType::f32, {20, 8});
      TensorView out = view(a, memory);
      int64_t first = 80;
      out.data = b.bytes.data() + 4 * first;
      out.strides = strides;
      run(*e, inputs, std::vector<TensorView>{out});
      for (int64_t i = 0; i < 4; ++i) {
        for (int64_t j = 0; j < 6; ++j) {
          EXPECT_EQ(b.at(first + i * strides[0] + j * strides[1]).f,
                    2.0 * static_cast<double>(i * 6 + j));
        }
      }
    }
  }
}

TEST_F(Runs, EmptyTensors) {
  HostTensor a(DType::f32, {0, 6});
  EXPECT_TRUE(run_on(cuda_engine(), kDouble, {view(a)})[0].bytes.empty());
}

TEST_F(Runs, TheCallersStreamGetsTheWork) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {8, 16}), b(DType::f32, {8, 16});
  std::vector<TensorView> inputs = {view(a, Memory::device)}, outputs = {view(b, Memory::device)};
  std::shared_ptr<const Executable> e = program_of(engine, kDouble)->executable(std::span(inputs));
  RunOptions options;
  options.stream = CU_STREAM_PER_THREAD;
  int before = fake_driver().calls("stream of the thread");
  run(*e, inputs, outputs, options);
  EXPECT_EQ(fake_driver().calls("stream of the thread"), before + 1);
}

TEST_F(Runs, WhatSpillsIsDroppedByThePickAndByTuning) {
  std::shared_ptr<Engine> engine = cuda_engine();
  setenv("TILE_FAKE_NVRTC_SPILLS", "1", 1);
  HostTensor a = ramp(DType::f32, {64, 48});
  std::vector<TensorView> inputs = {view(a)};
  std::shared_ptr<const Executable> e = program_of(engine, kDouble)->executable(std::span(inputs));
  Schedule spilling = analytic_schedule(*e->launches.at(0).kernel, engine->target());
  EXPECT_TRUE(engine->kernels()
                  .get(lowered(*e, *e->launches.at(0).kernel, spilling), engine->target())
                  ->spills());
  EXPECT_FALSE(e->launches.at(0).code->spills());
  EXPECT_NE(e->launches.at(0).schedule, spilling);
  e = tuned(*e, 1000);
  unsetenv("TILE_FAKE_NVRTC_SPILLS");
  EXPECT_FALSE(e->launches.at(0).code->spills());
  EXPECT_NE(e->launches.at(0).schedule, spilling);
}

// Candidates are timed on several sets of arguments in turns, fewer where memory is short, so that
// no run finds its data in the cache.
TEST_F(Runs, TimedLaunchesTakeTheirArgumentsInTurns) {
  auto sets = [](size_t memory_limit) {
    std::shared_ptr<Engine> engine = cuda_engine(memory_limit);
    HostTensor a = ramp(DType::f32, {64, 48});
    std::vector<TensorView> inputs = {view(a)};
    std::shared_ptr<const Executable> e =
        program_of(engine, kDouble)->executable(std::span(inputs));
    KernelTimer timer(*e, e->launches.at(0));
    fake_driver().first_arguments();
    timer(e->launches.at(0).schedule);
    return fake_driver().first_arguments();
  };
  EXPECT_EQ(sets(0), 6) << "one run to warm up, five that count";
  constexpr size_t kBytes = 64 * 48 * 4;
  EXPECT_EQ(sets(4 * kBytes), 2);
}

TEST_F(Runs, ProfileHasATimeForEachLaunch) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {8, 16}), b(DType::f32, {8, 16});
  std::vector<TensorView> inputs = {view(a)}, outputs = {view(b)};
  std::shared_ptr<const Executable> e = program_of(engine, kDouble)->executable(std::span(inputs));
  std::vector<double> ns;
  RunOptions options;
  options.profile = &ns;
  run(*e, inputs, outputs, options);
  ASSERT_EQ(ns.size(), e->launches.size());
  EXPECT_NEAR(ns[0], 1000, 1);  // what the fake driver's events say
}

class Sorts : public OnFakeDevice, public ::testing::WithParamInterface<int64_t> {};

// Values repeat and NaNs are among them: equal elements must keep their places.
HostTensor shuffled(DType type, const Shape& shape) {
  HostTensor t(type, shape);
  uint64_t state = 12345;
  for (int64_t i = 0; i < t.count(); ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    auto value = static_cast<int64_t>(state >> 58) - (is_unsigned_integer(type) ? 0 : 32);
    bool nan = is_float(type) && (state >> 40) % 16 == 0;
    t.set(i, is_float(type) ? real_scalar(nan ? NAN : static_cast<double>(value), type)
                            : integer_scalar(value, type));
  }
  return t;
}

TEST_P(Sorts, AgreeWithTheReference) {
  EngineOptions options;
  options.backend = "reference";
  std::shared_ptr<Engine> reference = Engine::create(options), engine = cuda_engine();
  const char* text = "function (A[M, N]) -> (S, P) { S = sort(A, 1); P = argsort(A, 0); }";
  std::vector<DType> types = {DType::f32};
  if (GetParam() < 100) {
    types = {DType::bool_,  DType::i8,  DType::i16,  DType::i32, DType::i64,
             DType::u8,     DType::u16, DType::u32,  DType::u64, DType::f8e4m3,
             DType::f8e5m2, DType::f16, DType::bf16, DType::f32, DType::f64};
  }
  // Types make other kernels, which each take long to compile; of one element some are enough.
  if (GetParam() == 1) types = {DType::bool_, DType::u16, DType::f8e5m2, DType::f64};
  for (DType type : types) {
    HostTensor a = shuffled(type, {3, GetParam()});
    std::vector<HostTensor> want = run_on(reference, text, {view(a)});
    std::vector<HostTensor> got = run_on(engine, text, {view(a)});
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].bytes, want[i].bytes) << to_string(type) << " output " << i;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Lengths, Sorts, ::testing::Values(1, 37, 2049));

class DiskCached : public OnFakeDevice {};

TEST_F(DiskCached, ASecondEngineCompilesNothing) {
  std::string folder = ::testing::TempDir() + "tile-cuda-cache-" + std::to_string(getpid());
  EngineOptions options;
  options.backend = "cuda";
  options.cache_dir = folder;
  options.cache_mode = "rw";
  HostTensor a = ramp(DType::f32, {8, 16});
  for (uint64_t compiled : {1, 0}) {
    std::shared_ptr<Engine> engine = Engine::create(options);
    EXPECT_EQ(run_on(engine, kDouble, {view(a)})[0].at(5).f, 10);
    EXPECT_EQ(engine->kernels().compiled, compiled);
    EXPECT_EQ(engine->kernels().disk_hits, 1 - compiled);
  }
}

}  // namespace
}  // namespace tile::test
