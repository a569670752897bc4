// The boxes that bulk copies bring: what the driver is told of the factors of a filter's gradient.
#include <gtest/gtest.h>

#include "backends/cuda/source.h"
#include "core/lower/lower.h"
#include "core/nest/passes/nest_passes.h"
#include "core/schedule/space/tensor_core_gemm_space.h"
#include "tests/support/narrow_filter_gradient.h"

namespace tile::testing {
namespace {

using Extents = std::vector<uint32_t>;
using Sizes = std::vector<uint64_t>;

std::vector<cuda::TensorMap> maps_of(const Filter& filter) {
  Target target = h200_target();
  target.strict_skip = false;
  Kernel kernel = filter_gradient(filter);
  std::vector<Schedule> all = tensor_cores::schedules(kernel, target, 1);
  if (all.empty()) return {};
  nest::Nest nest = nest::run_passes(lower(kernel, all[0], target), target);
  return cuda::print_cuda(nest, target).kernels.at(0).maps;
}

// 64 neighbouring channels of 2 columns, 2 rows and 16 pictures: 64 terms of 128 bytes each.
TEST(Boxes, AStepSpansColumnsRowsAndPictures) {
  std::vector<cuda::TensorMap> maps = maps_of({16, 14, 14, 64, 128});
  ASSERT_GE(maps.size(), 2U);
  EXPECT_EQ(maps[0].sizes, (Sizes{64, 14, 14, 16}));
  EXPECT_EQ(maps[1].sizes, (Sizes{128, 14, 14, 16}));
  EXPECT_EQ(maps[1].strides_bytes, (Sizes{256, 14 * 256, 14 * 14 * 256}));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(maps[i].box, (Extents{64, 2, 2, 16}));
    EXPECT_EQ(maps[i].element_strides, (Extents{1, 1, 1, 1}));
  }
}

// Of pictures every other column and row.
TEST(Boxes, WindowsWithAStrideAreReadWithIt) {
  std::vector<cuda::TensorMap> maps = maps_of({4, 16, 16, 64, 64, 3, 2});
  ASSERT_GE(maps.size(), 2U);
  EXPECT_EQ(maps[0].box, (Extents{64, 31, 7, 1}));
  EXPECT_EQ(maps[0].element_strides, (Extents{1, 2, 2, 1}));
  EXPECT_EQ(maps[1].box, (Extents{64, 16, 4, 1}));
  EXPECT_EQ(maps[1].element_strides, (Extents{1, 1, 1, 1}));
}

}  // namespace
}  // namespace tile::testing
