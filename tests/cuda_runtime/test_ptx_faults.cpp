// What NVIDIA's assembler of PTX translates wrongly is found and compiled in another way.
#include <string>

#include "backends/cuda/driver/ptx_faults.h"
#include "tests/cuda_runtime/real_nvrtc.h"

namespace tile::cuda {
namespace {

TEST(PtxFaults, ANegatedOperandOfAMinimumOfThree) {
  const std::string entry = ".visible .entry k(\n)\n{\n";
  auto found = [&](const std::string& body) {
    return has_negated_minimum_of_three(entry + body + "ret;\n}\n");
  };
  EXPECT_TRUE(found("neg.s32 \t%r2, %r1;\nmax.s32 \t%r4, %r3, %r2;\nmax.s32 \t%r6, %r4, %r5;\n"));
  EXPECT_TRUE(found("neg.s32 %r2, %r1;\nmin.s32 %r4, %r2, %r3;\nmin.s32 %r6, %r5, %r4;\n"));
  EXPECT_TRUE(found("neg.s32 %r2, %r1;\n@%p1 min.u32 %r4, %r2, %r3;\nmin.u32 %r6, %r5, %r4;\n"));
  EXPECT_TRUE(found("max.s32 %r4, %r3, %r1;\nneg.s32 %r2, %r1;\nmax.s32 %r6, %r4, %r2;\n"));
  EXPECT_TRUE(
      found("neg.s32 %r2, %r1;\nmax.s32 %r4, %r3, %r2;\nmov.u32 %r7, %r4;\n"
            "max.s32 %r6, %r7, %r5;\n"));
  EXPECT_FALSE(found("sub.s32 %r2, %r7, %r1;\nmax.s32 %r4, %r3, %r2;\nmax.s32 %r6, %r4, %r5;\n"));
  EXPECT_FALSE(found("neg.s32 %r2, %r1;\nmax.s32 %r4, %r3, %r2;\nmin.s32 %r6, %r4, %r5;\n"));
  EXPECT_FALSE(found("max.s32 %r4, %r3, %r2;\nmax.s32 %r6, %r4, %r5;\n"));
  // Registers are each kernel's own.
  EXPECT_FALSE(found("neg.s32 %r2, %r1;\nmax.s32 %r4, %r3, %r2;\nret;\n}\n" + entry +
                     "max.s32 %r6, %r4, %r5;\n"));
}

using RealNvrtc = RealNvrtcTest;

// ptxas made the same code of both.
TEST_F(RealNvrtc, NegatesAnOperandOfAMaximumOfThree) {
  auto text = [](const std::string& b) {
    return "extern \"C\" __global__ void k(const int* p, int* to) {\n  const int i = threadIdx.x;\n"
           "  const int a = p[i], b = p[i + 32], c = p[i + 64];\n"
           "  to[i] = max(max(a, " +
           b + "), c);\n}\n";
  };
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    EXPECT_NE(nvrtc_->compile(text("b"), architecture).image,
              nvrtc_->compile(text("-b"), architecture).image)
        << architecture;
  }
}

}  // namespace
}  // namespace tile::cuda
