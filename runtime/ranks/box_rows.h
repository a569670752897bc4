// Boxes of dense tensors as rows of bytes, for copies and kernels.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/rank_device.h"
#include "core/ir/bound.h"
#include "core/ir/ranks/box.h"

namespace tile {

// The cells of a box in a tensor and in a part, which is dense too: one loop for each level, the
// first the outermost; neighbouring dimensions that both walk as one are one level.
struct BoxLevels {
  size_t tensor_first = 0, part_first = 0;  // elements
  struct Level {
    size_t extent = 1, tensor_stride = 1, part_stride = 1;  // elements
  };
  std::vector<Level> levels;  // none: one cell
};
// `box` is not empty; it and `part` count from the tensor's first cell, and `part` holds it.
BoxLevels levels_of(const Shape& tensor, const Box& part, const Box& box);

// The copies that bring those cells from the part to the tensor, or the other way.
std::vector<RowCopy> copies_to_tensor(const BoxLevels& levels, size_t width, const std::byte* part,
                                      std::byte* tensor);
std::vector<RowCopy> copies_to_part(const BoxLevels& levels, size_t width, const std::byte* tensor,
                                    std::byte* part);

}  // namespace tile
