#include "core/ir/bound.h"

#include "core/support/checked.h"

namespace tile {

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size == 0) return 0;
  }
  for (int64_t size : shape) count = checked_mul(count, size);
  return count;
}

std::vector<int64_t> dense_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = checked_mul(strides[d], shape[d]);
  return strides;
}

}  // namespace tile
