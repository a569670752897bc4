// The parts of the driver's half, one by one: objects, NVRTC's log, copies as nests, machine code
// as text.
#include <gmock/gmock.h>

#include "backends/cuda/driver/code.h"
#include "backends/cuda/driver/disassemble.h"
#include "backends/cuda/driver/sort.h"
#include "runtime/engine/launch/copy_nest.h"
#include "tests/cuda_runtime/real_nvrtc.h"

namespace tile::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Object example() {
  Object object;
  CudaKernel kernel;
  kernel.name = "tile_0";
  kernel.grid = floor_div(Expr::variable("n") + 255, 256);
  kernel.block = 32;
  kernel.grid_yz = {5, 2};
  kernel.block_yz = {4, 1};
  kernel.shared_bytes = 4096;
  kernel.cluster = {2, 1};
  TensorMap map;
  map.argument = 1;
  map.type = DType::bf16;
  map.sizes = {64, 128};
  map.strides_bytes = {128};
  map.box = {64, 32};
  map.swizzle_bytes = 128;
  map.l2_promotion = 64;
  kernel.maps = {map};
  object.kernels = {kernel, CudaKernel{"tile_1", 7, 32, 0, {}, {}}};
  object.workspace_bytes = 1024;
  object.spills = true;
  object.image = {std::byte{1}, std::byte{'\n'}, std::byte{0}, std::byte{255}};
  return object;
}

TEST(Objects, ComeBackAsTheyWere) {
  Object object = example();
  std::optional<Object> back = unpack(pack(object));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(pack(*back), pack(object));
  EXPECT_EQ(back->image, object.image);
  EXPECT_EQ(back->kernels[0].grid, object.kernels[0].grid);
  EXPECT_EQ(back->kernels[0].grid_yz, object.kernels[0].grid_yz);
  EXPECT_EQ(back->kernels[0].block_yz, object.kernels[0].block_yz);
  EXPECT_EQ(back->kernels[0].maps[0].strides_bytes, object.kernels[0].maps[0].strides_bytes);
  EXPECT_EQ(back->workspace_bytes, 1024U);
  EXPECT_TRUE(back->spills);
}

TEST(Objects, DamagedOnesAreNone) {
  std::vector<std::byte> packed = pack(example());
  for (size_t size : {size_t{0}, size_t{5}, packed.size() / 2}) {
    EXPECT_FALSE(unpack(std::span(packed).first(size)).has_value()) << size;
  }
  for (size_t at : {size_t{0}, size_t{12}}) {
    std::vector<std::byte> damaged = packed;
    damaged[at] = std::byte{'x'};
    EXPECT_FALSE(unpack(damaged).has_value()) << at;
  }
}

TEST(Logs, TellSpillsAndSerialisedProducts) {
  Compiled compiled;
  read_log(
      "ptxas warning : Registers are spilled to local memory in function 'tile_0', 1216 bytes "
      "spill "
      "stores, 1264 bytes spill loads\nptxas info : (C7510) Potential Performance Loss",
      compiled);
  ASSERT_EQ(compiled.spills.size(), 1U);
  EXPECT_EQ(compiled.spills[0].kernel, "tile_0");
  EXPECT_EQ(compiled.spills[0].store_bytes, 1216);
  EXPECT_EQ(compiled.spills[0].load_bytes, 1264);
  EXPECT_TRUE(compiled.serialized_wgmma);
}

using RealNvrtc = RealNvrtcTest;

// Half of the threads that may be resident leave too few registers for 128 live values.
constexpr const char* kSpilling = R"(
extern "C" __global__ void __launch_bounds__(1024, 1) spilling(float *p) {
  float a[128];
#pragma unroll
  for (int i = 0; i < 128; i++) a[i] = p[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 128; i++) p[i * 1024 + threadIdx.x] = a[i] * a[(i * 7 + 1) % 128];
}
)";
constexpr const char* kPlain =
    "extern \"C\" __global__ void plain(float *p) { p[threadIdx.x] = p[threadIdx.x] * 2.0f + 1.0f; "
    "}";

TEST_F(RealNvrtc, TellsAKernelMadeToSpillAndNoOther) {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    Compiled spilling = nvrtc_->compile(kSpilling, architecture);
    ASSERT_EQ(spilling.spills.size(), 1U) << spilling.log;
    EXPECT_EQ(spilling.spills[0].kernel, "spilling");
    EXPECT_GT(spilling.spills[0].store_bytes, 0);
    EXPECT_TRUE(nvrtc_->compile(kPlain, architecture).spills.empty());
  }
}

TEST_F(RealNvrtc, FusesNoMultiplyAdd) {
  Compiled ptx = nvrtc_->compile(kPlain, "compute_80");
  std::string text(reinterpret_cast<const char*>(ptx.image.data()), ptx.image.size());
  EXPECT_THAT(text, HasSubstr("mul"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("fma")));
}

TEST_F(RealNvrtc, SortsOfEveryTypeCompileWithoutSpills) {
  for (DType type : {DType::bool_, DType::i8, DType::i16, DType::i32, DType::i64, DType::u8,
                     DType::u16, DType::u32, DType::u64, DType::f8e4m3, DType::f8e5m2, DType::f16,
                     DType::bf16, DType::f32, DType::f64}) {
    Compiled compiled = nvrtc_->compile(sort_source(type).text, "sm_75");
    EXPECT_TRUE(compiled.spills.empty()) << to_string(type) << compiled.log;
  }
}

TEST_F(RealNvrtc, ErrorsCarryTheLog) {
  try {
    nvrtc_->compile("extern \"C\" __global__ void k() { nothing_known; }", "sm_80");
    FAIL() << "compiled";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.diagnostic().code, "nvrtc");
    EXPECT_THAT(failure.diagnostic().message, HasSubstr("nothing_known"));
  }
}

TEST_F(RealNvrtc, MachineCodeAsTextOrAClearError) {
  Compiled cubin = nvrtc_->compile(kPlain, "sm_90a");
  try {
    EXPECT_THAT(disassemble(cubin.image), HasSubstr("FMUL"));
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.diagnostic().code, "sass");
    EXPECT_THAT(failure.diagnostic().message, HasSubstr("cuobjdump"));
  }
}

TEST(CopyNests, MoveEveryElement) {
  Shape shape = {3, 5, 7};
  HostTensor from(DType::f16, shape), to(DType::f16, shape);
  for (int64_t i = 0; i < from.count(); ++i) {
    from.set(i, real_scalar(static_cast<double>(i), DType::f16));
  }
  nest::Nest nest = copy_nest(DType::f16, shape, {}, {});
  nest::verify(nest);
  HostTensor source = from, target = to;
  source.type = target.type = DType::u16;
  nest::interpret(nest, {&source, &target});
  EXPECT_EQ(target.bytes, from.bytes);
}

}  // namespace
}  // namespace tile::cuda
