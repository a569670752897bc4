// Tests with the real NVRTC; no GPU is needed. Skipped, saying so, where there is none.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "backends/cuda/driver/nvrtc.h"

namespace tile::cuda {

class RealNvrtcTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string(TILE_REAL_NVRTC).empty()) GTEST_SKIP() << "no NVRTC on this machine";
    ::setenv("TILE_NVRTC", TILE_REAL_NVRTC, 1);
    nvrtc_ = Nvrtc::open(0);
  }
  void TearDown() override { ::unsetenv("TILE_NVRTC"); }
  std::shared_ptr<const Nvrtc> nvrtc_;
};

}  // namespace tile::cuda
