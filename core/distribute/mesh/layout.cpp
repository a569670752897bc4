#include "core/distribute/mesh/layout.h"

#include <algorithm>

#include "core/support/checked.h"

namespace tile {

bool TensorLayout::uses(size_t axis) const {
  auto has = [axis](const std::vector<size_t>& axes) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  return has(partial) ||
         std::any_of(dims.begin(), dims.end(), [&](const DimLayout& d) { return has(d.axes); });
}

TensorLayout whole_layout(size_t dims) { return {std::vector<DimLayout>(dims), {}}; }

size_t parts_of(const Mesh& mesh, const std::vector<size_t>& axes) {
  size_t parts = 1;
  for (size_t a : axes) parts *= static_cast<size_t>(mesh.axes[a].size);
  return parts;
}

size_t part_of(const Mesh& mesh, const std::vector<size_t>& axes, size_t rank) {
  std::vector<int64_t> at = mesh.coordinates(rank);
  size_t part = 0;
  for (size_t a : axes) {
    part = part * static_cast<size_t>(mesh.axes[a].size) + static_cast<size_t>(at[a]);
  }
  return part;
}

DimLayout even_cut(const Mesh& mesh, std::vector<size_t> axes, int64_t extent) {
  DimLayout dim;
  if (axes.empty()) return dim;
  auto parts = static_cast<int64_t>(parts_of(mesh, axes));
  int64_t least = extent / parts, longer = extent % parts;
  for (int64_t p = 0; p <= parts; ++p) dim.starts.push_back(p * least + std::min(p, longer));
  dim.axes = std::move(axes);
  return dim;
}

Box box_of(const TensorLayout& layout, const Shape& shape, const Mesh& mesh, size_t rank) {
  Box box = whole_box(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    const DimLayout& dim = layout.dims[d];
    if (dim.whole()) continue;
    size_t part = part_of(mesh, dim.axes, rank);
    box.lo[d] = dim.starts[part];
    box.hi[d] = dim.starts[part + 1];
  }
  return box;
}

std::vector<Box> boxes_of(const TensorLayout& layout, const Shape& shape, const Mesh& mesh) {
  std::vector<Box> boxes;
  for (size_t r = 0; r < mesh.ranks(); ++r) boxes.push_back(box_of(layout, shape, mesh, r));
  return boxes;
}

namespace {

std::string axes_text(const std::vector<size_t>& axes, const Mesh& mesh) {
  std::string text;
  for (size_t a : axes) text += (text.empty() ? "" : ".") + mesh.axes[a].name;
  return text;
}

std::string dim_text(const DimLayout& dim, const Mesh& mesh) {
  if (dim.whole()) return "*";
  std::string text = axes_text(dim.axes, mesh);
  if (dim == even_cut(mesh, dim.axes, dim.starts.back())) return text;
  std::string sizes;
  for (size_t p = 0; p + 1 < dim.starts.size(); ++p) {
    sizes += (p == 0 ? "" : ", ") + std::to_string(dim.starts[p + 1] - dim.starts[p]);
  }
  return text + "(" + sizes + ")";
}

}  // namespace

std::string to_string(const TensorLayout& layout, const std::string& tensor, const Mesh& mesh) {
  std::string text = tensor + "[";
  for (size_t d = 0; d < layout.dims.size(); ++d) {
    text += (d == 0 ? "" : ", ") + dim_text(layout.dims[d], mesh);
  }
  text += "]";
  if (!layout.partial.empty()) text += " + " + axes_text(layout.partial, mesh);
  return text;
}

}  // namespace tile
