// A compilation by NVRTC ends where its thread's control wants that, and the next one is whole.
#include <gtest/gtest.h>

#include <atomic>

#include "core/support/diagnostic.h"
#include "runtime/engine/concurrency/call_control.h"
#include "tests/cuda_runtime/real_nvrtc.h"

namespace tile::test {
namespace {

// Takes the compiler some seconds.
std::string long_kernel() {
  std::string text = "extern \"C\" __global__ void f(float* p) {\n  float a = p[threadIdx.x];\n";
  for (int i = 0; i < 20000; ++i) {
    text += "  a = a * p[" + std::to_string(i % 997) + "] + p[" + std::to_string(i % 811) + "];\n";
  }
  return text + "  p[threadIdx.x] = a;\n}\n";
}

class CancelledCompilation : public cuda::RealNvrtcTest {};

TEST_F(CancelledCompilation, EndsAndLeavesNothingBehind) {
  if (nvrtc_->version() < 12080) GTEST_SKIP() << "NVRTC asks nobody before CUDA 12.8";
  std::atomic<int> asked{0};
  CallControl control(Stage::compile, [&] { return ++asked > 2; });
  try {
    Controlled now(&control, nullptr);
    nvrtc_->compile(long_kernel(), "sm_90a");
    ADD_FAILURE() << "compiled, after " << asked << " questions";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.diagnostic().code, "cancelled") << failure.what();
  }
  EXPECT_FALSE(nvrtc_->compile("extern \"C\" __global__ void f() {}\n", "sm_90a").image.empty());
}

}  // namespace
}  // namespace tile::test
