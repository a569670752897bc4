// Sorts on the CPU: what they need beside their tensors.
#include <gtest/gtest.h>

#include "backends/cpu/launch/sort.h"

namespace tile::cpu {
namespace {

// (An executable's workspace was for all threads of the machine, more than the rows: for one row. A
// run on two threads wrote two.)
TEST(CpuSort, WorkspacesSufficeForFewerThreads) {
  Sort sort{};
  sort.axis = 1;
  for (int64_t rows : {1, 2, 4, 7, 31, 100}) {
    BoundTensor source;
    source.type = DType::f32;
    source.shape = {rows, 10'000};
    for (int threads : {1, 2, 3, 8, 32, 64}) {
      size_t bytes = sort_workspace(sort, source, threads);
      for (int fewer = 1; fewer < threads; ++fewer) {
        EXPECT_LE(sort_workspace(sort, source, fewer), bytes) << rows << " " << threads;
      }
    }
  }
}

}  // namespace
}  // namespace tile::cpu
