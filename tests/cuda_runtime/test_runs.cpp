// Runs on the fake device: where tensors are, what is copied, what waits.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>

#include "runtime/engine/copy_nest.h"
#include "tests/cuda_runtime/fake_device.h"

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
  std::shared_ptr<Executable> e = program_of(engine, kDouble)->executable(std::span(inputs));
  int before = copies(), waits = fake_driver().calls("cuStreamSynchronize"),
      allocations = fake_driver().calls("cuMemAllocFromPoolAsync");
  run(*e, inputs, outputs);
  EXPECT_EQ(copies(), before);
  EXPECT_EQ(fake_driver().calls("cuStreamSynchronize"), waits);
  EXPECT_EQ(fake_driver().calls("cuMemAllocFromPoolAsync"), allocations);
  for (int64_t i = 0; i < b.count(); ++i) EXPECT_EQ(b.at(i).f, 2.0 * static_cast<double>(i));
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
    std::shared_ptr<Executable> e = program_of(engine, kDouble)->executable(std::span(inputs));
    check_tensors(*e, inputs, outputs);
    run(*e, inputs, outputs);
    for (int64_t i = 0; i < b.count(); ++i) EXPECT_EQ(b.at(i).f, 2.0 * static_cast<double>(i));
  }
}

TEST_F(Runs, MisalignedDeviceTensorsAreStaged) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {4, 6}), room(DType::f32, {30});
  HostTensor shifted = ramp(DType::f32, {25});
  TensorView in = view(a, Memory::device), out = view(a, Memory::device);
  in.data = shifted.bytes.data() + 4;  // 1, 2, 3 …
  out.data = room.bytes.data() + 4;
  std::vector<TensorView> inputs = {in}, outputs = {out};
  std::shared_ptr<Executable> e = program_of(engine, kDouble)->executable(std::span(inputs));
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
  std::shared_ptr<Executable> e = program_of(engine, kDouble)->executable(std::span(inputs));
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

TEST_F(Runs, EmptyTensors) {
  HostTensor a(DType::f32, {0, 6});
  EXPECT_TRUE(run_on(cuda_engine(), kDouble, {view(a)})[0].bytes.empty());
}

TEST_F(Runs, TheCallersStreamGetsTheWork) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {8, 16}), b(DType::f32, {8, 16});
  std::vector<TensorView> inputs = {view(a, Memory::device)}, outputs = {view(b, Memory::device)};
  std::shared_ptr<Executable> e = program_of(engine, kDouble)->executable(std::span(inputs));
  RunOptions options;
  options.stream = CU_STREAM_PER_THREAD;
  int before = fake_driver().calls("stream of the thread");
  run(*e, inputs, outputs, options);
  EXPECT_EQ(fake_driver().calls("stream of the thread"), before + 1);
}

TEST_F(Runs, ProfileHasATimeForEachLaunch) {
  std::shared_ptr<Engine> engine = cuda_engine();
  HostTensor a = ramp(DType::f32, {8, 16}), b(DType::f32, {8, 16});
  std::vector<TensorView> inputs = {view(a)}, outputs = {view(b)};
  std::shared_ptr<Executable> e = program_of(engine, kDouble)->executable(std::span(inputs));
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
    types = {DType::bool_, DType::i8,  DType::i16, DType::i32,  DType::i64, DType::u8, DType::u16,
             DType::u32,   DType::u64, DType::f16, DType::bf16, DType::f32, DType::f64};
  }
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
