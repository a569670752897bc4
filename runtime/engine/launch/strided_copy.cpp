#include "runtime/engine/launch/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "core/support/checked.h"
#include "core/support/control.h"
#include "runtime/engine/launch/copy_nest.h"

namespace tile {
namespace {

// Copies elements between two layouts of one shape; empty strides: dense.
class StridedCopy {
 public:
  StridedCopy(const Shape& shape, size_t element, const std::vector<int64_t>& from,
              const std::vector<int64_t>& to)
      : shape_(shape), element_(element), from_(from), to_(to) {}
  void run(const std::byte* from, std::byte* to) const { level(0, from, to); }

 private:
  void level(size_t d, const std::byte* from, std::byte* to) const {
    if (d == shape_.size()) {
      std::memcpy(to, from, element_);
      return;
    }
    for (int64_t i = 0; i < shape_[d]; ++i) {
      if (i % kAsked == 0) checkpoint_for(kAsked / 4);
      level(d + 1, from + i * from_[d] * static_cast<int64_t>(element_),
            to + i * to_[d] * static_cast<int64_t>(element_));
    }
  }
  static constexpr int kAsked = 1024;  // elements between two checkpoints
  const Shape& shape_;
  size_t element_;
  const std::vector<int64_t>& from_;
  const std::vector<int64_t>& to_;
};

}  // namespace

size_t byte_count(const TensorView& t) {
  return static_cast<size_t>(element_count(t.shape)) * byte_size(t.type);
}

Extent extent_of(const TensorView& t) {
  const auto* base = static_cast<const std::byte*>(t.data);
  if (element_count(t.shape) == 0) return {base, base};
  int64_t low = 0, high = 0;
  std::vector<int64_t> dense = dense_strides(t.shape);
  const std::vector<int64_t>& strides = t.strides.empty() ? dense : t.strides;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    int64_t reach = checked_mul(t.shape[d] - 1, strides[d]);
    (reach < 0 ? low : high) = checked_add(reach < 0 ? low : high, reach);
  }
  auto size = static_cast<int64_t>(byte_size(t.type));
  return {base + low * size, base + (high + 1) * size};
}
bool overlap(const TensorView& a, const TensorView& b) {
  Extent x = extent_of(a), y = extent_of(b);
  return x.begin < y.end && y.begin < x.end;
}

void copy_to_dense(const TensorView& from, std::byte* to) {
  std::vector<int64_t> dense = dense_strides(from.shape);
  const std::vector<int64_t>& strides = from.strides.empty() ? dense : from.strides;
  StridedCopy(from.shape, byte_size(from.type), strides, dense)
      .run(static_cast<const std::byte*>(from.data), to);
}
void copy_from_dense(const std::byte* from, const TensorView& to) {
  std::vector<int64_t> dense = dense_strides(to.shape);
  const std::vector<int64_t>& strides = to.strides.empty() ? dense : to.strides;
  StridedCopy(to.shape, byte_size(to.type), dense, strides)
      .run(from, static_cast<std::byte*>(to.data));
}

}  // namespace tile
