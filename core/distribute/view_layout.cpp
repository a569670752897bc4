// Layouts of reshaped tensors. Dimensions of both shapes are grouped so that groups have the same
// number of elements; inside of a group only cuts of the first dimension are boxes of both shapes.
#include "core/distribute/distribution.h"
#include "core/support/checked.h"

namespace tile {
namespace {

// Dimensions [begin, end) of each shape.
struct Group {
  size_t begin[2], end[2];
};

// Nothing for shapes without elements, whose products tell nothing apart.
std::vector<Group> groups_of(const Shape& source, const Shape& view) {
  std::vector<Group> groups;
  if (element_count(source) == 0) return groups;
  size_t i = 0, j = 0;
  while (i < source.size() && j < view.size()) {
    Group group{{i, j}, {0, 0}};
    int64_t left = source[i++], right = view[j++];
    while (left != right) {
      if (left < right) {
        left = checked_mul(left, source[i++]);
      } else {
        right = checked_mul(right, view[j++]);
      }
    }
    group.end[0] = i;
    group.end[1] = j;
    groups.push_back(group);
  }
  return groups;
}

int64_t product(const Shape& shape, size_t begin, size_t end) {
  int64_t all = 1;
  for (size_t d = begin; d < end; ++d) all = checked_mul(all, shape[d]);
  return all;
}

// The cut of the view's first dimension of a group that cuts the same elements.
std::optional<DimLayout> followed(const DimLayout& cut, int64_t source_stride,
                                  int64_t view_stride) {
  DimLayout dim{cut.axes, {}};
  for (int64_t start : cut.starts) {
    int64_t element = checked_mul(start, source_stride);
    if (element % view_stride != 0) return std::nullopt;
    dim.starts.push_back(element / view_stride);
  }
  return dim;
}

// The view's layout; dimensions of the source that it cannot follow are made whole there.
TensorLayout follow(const BoundProgram& program, TensorId view, TensorLayout& source) {
  const Shape& to = program.tensors[view].shape;
  const Shape& from = program.tensors[*program.tensors[view].view_of].shape;
  TensorLayout layout = whole_layout(to.size());
  layout.partial = source.partial;
  std::vector<bool> kept(from.size(), false);
  for (const Group& g : groups_of(from, to)) {
    size_t first = g.begin[0];
    if (source.dims[first].whole()) continue;
    std::optional<DimLayout> dim = followed(source.dims[first], product(from, first + 1, g.end[0]),
                                            product(to, g.begin[1] + 1, g.end[1]));
    if (!dim) continue;
    layout.dims[g.begin[1]] = std::move(*dim);
    kept[first] = true;
  }
  for (size_t d = 0; d < from.size(); ++d) {
    if (!kept[d]) source.dims[d] = {};
  }
  return layout;
}

}  // namespace

std::optional<TensorLayout> layout_of_view(const BoundProgram& program, TensorId view,
                                           const TensorLayout& source) {
  TensorLayout kept = source;
  TensorLayout layout = follow(program, view, kept);
  if (kept != source) return std::nullopt;
  return layout;
}

TensorLayout followed_by_view(const BoundProgram& program, TensorId view, TensorLayout source) {
  follow(program, view, source);
  return source;
}

}  // namespace tile
