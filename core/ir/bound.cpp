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

}  // namespace tile
