#include "core/distribute/choice/result_costs.h"

#include <algorithm>
#include <limits>

#include "core/distribute/sums.h"

namespace tile {
namespace {

bool same_axes(std::vector<size_t> a, std::vector<size_t> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

}  // namespace

double ResultCosts::ns(const Result& result, const Way& way, const TensorLayout& layout) const {
  if (!layout.partial.empty()) {
    bool kept = way.computed.dims == layout.dims && same_axes(way.axes(), layout.partial);
    return kept ? 0 : std::numeric_limits<double>::infinity();
  }
  if (!way.cuts.empty()) return sum_ns(result, way, layout);
  if (way.computed == layout) return 0;
  const BoundTensor& tensor = program_.tensors[result.id];
  auto width = static_cast<int64_t>(byte_size(tensor.type));
  return traffic_.cost(way.computed, cells_of_layout(layout, tensor.shape, mesh_), width).ns;
}

double ResultCosts::sum_ns(const Result& result, const Way& way, const TensorLayout& layout) const {
  const Contraction& c = *result.of;
  const BoundTensor& tensor = program_.tensors[result.id];
  std::vector<Box> boxes = boxes_of(way.computed, tensor.shape, mesh_);
  auto width = static_cast<int64_t>(byte_size(c.accumulator));
  TensorLayout sums =
      layout_of_sums(program_, c, layout, PartialSums{boxes, way.axes(), width}, mesh_, links_);
  TensorLayout parts = way.computed;
  parts.partial = way.axes();
  NeededCells cells = cells_of_layout(sums, tensor.shape, mesh_);
  double ns = traffic_.cost(parts, cells, width).ns;
  if (result.marks) {
    ns += traffic_.cost(parts, cells, static_cast<int64_t>(byte_size(DType::i32))).ns;
  }
  if (sums == layout) return ns;
  cells = cells_of_layout(layout, tensor.shape, mesh_);
  return ns + traffic_.cost(sums, cells, static_cast<int64_t>(byte_size(tensor.type))).ns;
}

}  // namespace tile
