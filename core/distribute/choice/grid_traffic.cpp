#include "core/distribute/choice/grid_traffic.h"

#include <algorithm>

#include "core/support/checked.h"
#include "core/support/control.h"

namespace tile {

GridTraffic::GridTraffic(const Mesh& mesh, const Links& links)
    : mesh_(mesh), links_(links), stride_(mesh.axes.size(), 1) {
  for (size_t r = 0; r < mesh.ranks(); ++r) at_.push_back(mesh.coordinates(r));
  for (size_t a = mesh.axes.size(); a-- > 1;) {
    stride_[a - 1] = stride_[a] * static_cast<size_t>(mesh.axes[a].size);
  }
}

// One rank, and one box that it needs: the parts of the tensor that the box meets, each from the
// rank with the receiver's coordinates along all axes that do not tell the parts apart.
class GridTraffic::Receiver {
 public:
  Receiver(const GridTraffic& grid, const TensorLayout& layout, size_t rank, int64_t width,
           Traffic& into)
      : grid_(grid), layout_(layout), rank_(rank), width_(width), into_(into) {}

  void fetch(const Box& box) const {
    if (!box.empty()) along(box, 0, rank_, width_);
  }

 private:
  // The sender that differs along a cut's or a sum's axes as the number of its part says.
  size_t with_part(size_t sender, const std::vector<size_t>& axes, size_t part) const {
    for (size_t i = axes.size(); i-- > 0;) {
      auto size = static_cast<size_t>(grid_.mesh_.axes[axes[i]].size);
      auto own = static_cast<size_t>(grid_.at_[rank_][axes[i]]);
      sender += (part % size) * grid_.stride_[axes[i]] - own * grid_.stride_[axes[i]];
      part /= size;
    }
    return sender;
  }

  void along(const Box& box, size_t d, size_t sender, int64_t bytes) const {
    if (d == box.dims()) return from_groups(sender, bytes);
    const DimLayout& dim = layout_.dims[d];
    if (dim.whole()) return along(box, d + 1, sender, checked_mul(bytes, box.hi[d] - box.lo[d]));
    auto after = std::upper_bound(dim.starts.begin(), dim.starts.end(), box.lo[d]);
    for (auto p = static_cast<size_t>(after - dim.starts.begin()) - 1;
         p + 1 < dim.starts.size() && dim.starts[p] < box.hi[d]; ++p) {
      int64_t cells = std::min(box.hi[d], dim.starts[p + 1]) - std::max(box.lo[d], dim.starts[p]);
      if (cells > 0) along(box, d + 1, with_part(sender, dim.axes, p), checked_mul(bytes, cells));
    }
  }

  void from_groups(size_t sender, int64_t bytes) const {
    size_t groups = parts_of(grid_.mesh_, layout_.partial);
    for (size_t g = 0; g < groups; ++g) {
      size_t from = layout_.partial.empty() ? sender : with_part(sender, layout_.partial, g);
      if (from == rank_) continue;
      into_.add(from, rank_, bytes, grid_.links_.between(grid_.mesh_, from, rank_));
    }
  }

  const GridTraffic& grid_;
  const TensorLayout& layout_;
  size_t rank_;
  int64_t width_;
  Traffic& into_;
};

ExchangeCost GridTraffic::cost(const TensorLayout& layout, const NeededCells& needs,
                               int64_t element_bytes) const {
  Traffic traffic(needs.size());
  for (size_t r = 0; r < needs.size(); ++r) {
    checkpoint();
    Receiver receiver(*this, layout, r, element_bytes, traffic);
    for (const Box& box : needs[r]) receiver.fetch(box);
  }
  return traffic.cost();
}

NeededCells cells_of_layout(const TensorLayout& layout, const Shape& shape, const Mesh& mesh) {
  NeededCells cells;
  for (Box& box : boxes_of(layout, shape, mesh)) cells.push_back({std::move(box)});
  return cells;
}

}  // namespace tile
