// Stencils and filters compiled by NVRTC: two bodies fit the registers, and the interiors of
// stencils keep no division, choice or comparison of integers in machine-independent code.
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "backends/cuda/source.h"
#include "tests/cuda_runtime/real_nvrtc.h"
#include "tests/random/sweep.h"
#include "tests/support/interior_cases.h"

namespace tile::test {
namespace {

class InteriorCode : public cuda::RealNvrtcTest {
 protected:
  std::vector<std::string> choices_in_ptx(const nest::Nest& nest) const {
    std::string text = cuda::print_cuda(nest, h200_target()).text;
    cuda::Compiled ptx = nvrtc_->compile(text, "compute_90a");
    static const std::regex kChoice(
        "^\\s+(@%p[0-9]+ "
        ")?((div|rem|min|max|set|slct)\\.[su](16|32|64)|mul\\.hi|selp|setp\\.[a-z]+\\.[sub])");
    std::istringstream lines(
        std::string(reinterpret_cast<const char*>(ptx.image.data()), ptx.image.size()));
    std::vector<std::string> found;
    for (std::string line; std::getline(lines, line);) {
      if (std::regex_search(line, kChoice)) found.push_back(line);
    }
    return found;
  }
};

TEST_F(InteriorCode, SpillsNothing) {
  for (const Target& target : {h200_target(), a100_target()}) {
    uint64_t number = 0;
    for (const InteriorCase& c : interior_cases()) {
      bool older = target.features != h200_target().features;
      if (older && !swept(number++, 3)) continue;
      for (const nest::Nest& nest : lowered_nests(c, target)) {
        std::string text = cuda::print_cuda(nest::partition(nest), target).text;
        cuda::Compiled code = nvrtc_->compile(text, target.features);
        EXPECT_TRUE(code.spills.empty()) << c.path << code.log;
      }
    }
  }
}

TEST_F(InteriorCode, StencilsChooseAtBordersOnly) {
  for (const InteriorCase& c : interior_cases()) {
    if (std::string(c.path).find(".lift") == std::string::npos) continue;
    SCOPED_TRACE(c.path);
    for (const nest::Nest& nest : lowered_nests(c, h200_target())) {
      nest::Nest parts = nest::partition(nest);
      EXPECT_EQ(choices_in_ptx(block_side(parts, true)), std::vector<std::string>{});
      EXPECT_GE(choices_in_ptx(block_side(parts, false)).size(), 4U);
    }
  }
}

}  // namespace
}  // namespace tile::test
