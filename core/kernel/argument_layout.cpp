#include "core/kernel/argument_layout.h"

#include <algorithm>
#include <optional>

#include "core/support/checked.h"

namespace tile {

std::vector<size_t> merged_from(const Shape& merged, const Shape& shape) {
  std::vector<size_t> first{0};
  size_t d = 0;
  for (int64_t extent : merged) {
    if (d == shape.size()) return {};
    bool last = first.size() == merged.size();
    int64_t size = shape[d++];
    while (d < shape.size() && (size != extent || last)) size = checked_mul(size, shape[d++]);
    if (size != extent) return {};
    first.push_back(d);
  }
  return first;
}

namespace {

// The strides of the merged dimensions where the tensor's own are dense along them.
std::optional<std::vector<int64_t>> merged_strides(const Shape& merged, const Shape& shape,
                                                   const std::vector<int64_t>& strides) {
  std::vector<size_t> first = merged_from(merged, shape);
  if (first.empty()) return std::nullopt;
  std::vector<int64_t> result;
  for (size_t m = 0; m < merged.size(); ++m) {
    int64_t size = shape[first[m]], stride = strides[first[m]];
    for (size_t d = first[m] + 1; d < first[m + 1]; ++d) {
      bool free = size == 1 || shape[d] == 1;
      if (!free && stride != checked_mul(strides[d], shape[d])) return std::nullopt;
      if (shape[d] != 1) stride = strides[d];
      size = checked_mul(size, shape[d]);
    }
    result.push_back(stride);
  }
  return result;
}

}  // namespace

ArgumentLayout argument_layout(const Kernel& kernel, TensorId id, const Strides& strides) {
  const BoundTensor& t = kernel.tensors[id];
  ArgumentLayout layout{t.type, t.shape, dense_strides(t.shape), false};
  if (!strides.contains(id) || strides[id].empty()) return layout;
  bool merged = kernel.shapes.contains(id) && !kernel.shapes[id].empty();
  std::optional<std::vector<int64_t>> own = strides[id];
  if (merged) own = merged_strides(t.shape, kernel.shapes[id], strides[id]);
  if (!own) {
    layout.shape = kernel.shapes[id];
    own = strides[id];
    layout.split = true;
  }
  layout.strides = *own;
  return layout;
}

ArgumentLayouts argument_layouts(const Kernel& kernel, const Strides& strides) {
  ArgumentLayouts layouts;
  for (TensorId id : arguments_of(kernel)) layouts[id] = argument_layout(kernel, id, strides);
  return layouts;
}

std::vector<TensorId> arguments_of(const Kernel& kernel) {
  std::vector<TensorId> list;
  for (TensorId id : kernel.reads) {
    if (std::find(kernel.writes.begin(), kernel.writes.end(), id) == kernel.writes.end()) {
      list.push_back(id);
    }
  }
  list.insert(list.end(), kernel.writes.begin(), kernel.writes.end());
  return list;
}

}  // namespace tile
