// A compilation by NVRTC ends where its thread's control wants that, and the next one is whole.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

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

// Whoever is cancelled does not wait for the compiler, whatever it asks.
TEST_F(CancelledCompilation, IsLeftBehindAtOnce) {
  auto begin = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point asked;
  CallControl control(Stage::compile, [&] {
    bool enough = std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(200);
    if (enough && asked == decltype(asked){}) asked = std::chrono::steady_clock::now();
    return enough;
  });
  EXPECT_THROW(
      {
        Controlled now(&control, nullptr);
        nvrtc_->compile(long_kernel(), "sm_90a");
      },
      Failure);
  // Nothing is left to do between the answer and the return: a compilation takes seconds.
  EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::milliseconds(100));
}

TEST_F(CancelledCompilation, ItsThreadsTimeCounts) {
  CallControl control(Stage::compile, nullptr, 0.2);
  try {
    Controlled now(&control, nullptr);
    nvrtc_->compile(long_kernel(), "sm_90a");
    ADD_FAILURE() << "compiled in a fifth of a second";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.diagnostic().code, "limit") << failure.what();
  }
}

TEST_F(CancelledCompilation, FailuresOfTheCompilerReachTheCaller) {
  CallControl control(Stage::compile, nullptr);
  Controlled now(&control, nullptr);
  try {
    nvrtc_->compile("this is no kernel", "sm_90a");
    ADD_FAILURE() << "compiled";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.diagnostic().code, "nvrtc") << failure.what();
  }
}

// Several threads that are cancelled again and again, and others that are not.
TEST_F(CancelledCompilation, FromSeveralThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> cancelled{0}, compiled{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        int questions = 0;
        CallControl control(Stage::compile, [&] { return t % 2 == 0 && ++questions > 3; });
        Controlled now(&control, nullptr);
        try {
          std::string text = t % 2 == 0 ? long_kernel() : "extern \"C\" __global__ void f() {}\n";
          if (!nvrtc_->compile(text, "sm_90a").image.empty()) ++compiled;
        } catch (const Failure& failure) {
          if (failure.diagnostic().code == "cancelled") ++cancelled;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cancelled, 10);
  EXPECT_EQ(compiled, 10);
}

}  // namespace
}  // namespace tile::test
