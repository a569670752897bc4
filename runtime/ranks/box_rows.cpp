#include "runtime/ranks/box_rows.h"

namespace tile {
namespace {

// The copies between two sides of which each level has a stride.
class RowCopies {
 public:
  struct Side {
    std::byte* first;
    std::vector<size_t> strides;  // bytes, of the levels
  };
  RowCopies(std::vector<size_t> extents, size_t width, Side from, Side to)
      : extents_(std::move(extents)), width_(width), from_(std::move(from)), to_(std::move(to)) {}

  std::vector<RowCopy> run() {
    size_t inner = extents_.size();
    bool is_run = inner > 0 && from_.strides.back() == width_ && to_.strides.back() == width_;
    if (is_run) width_ *= extents_[--inner];
    outer_ = inner > 2 ? inner - 2 : 0;
    inner_ = inner;
    level(0, from_.first, to_.first);
    return std::move(copies_);
  }

 private:
  void level(size_t l, std::byte* from, std::byte* to) {
    if (l == outer_) return add(from, to);
    for (size_t i = 0; i < extents_[l]; ++i) {
      level(l + 1, from + i * from_.strides[l], to + i * to_.strides[l]);
    }
  }

  void add(std::byte* from, std::byte* to) {
    RowCopy copy;
    copy.width = width_;
    auto side = [&](const Side& of, std::byte* first) {
      RowCopy::Side s{first, width_, width_};
      if (inner_ > outer_) s.pitch = s.slice = of.strides[inner_ - 1];
      if (inner_ > outer_ + 1) s.slice = of.strides[inner_ - 2];
      return s;
    };
    copy.from = side(from_, from);
    copy.to = side(to_, to);
    if (inner_ > outer_) copy.rows[1] = extents_[inner_ - 1];
    if (inner_ > outer_ + 1) copy.rows[0] = extents_[inner_ - 2];
    copies_.push_back(copy);
  }

  std::vector<size_t> extents_;
  size_t width_;
  Side from_, to_;
  size_t outer_ = 0, inner_ = 0;  // levels before the rows, and behind them
  std::vector<RowCopy> copies_;
};

std::vector<size_t> extents_of(const BoxLevels& levels) {
  std::vector<size_t> extents;
  for (const BoxLevels::Level& level : levels.levels) extents.push_back(level.extent);
  return extents;
}
RowCopies::Side side_of(const BoxLevels& levels, size_t width, std::byte* first,
                        size_t BoxLevels::Level::* stride) {
  RowCopies::Side side{first, {}};
  for (const BoxLevels::Level& l : levels.levels) side.strides.push_back(l.*stride * width);
  return side;
}
// A copy only reads where it comes from.
RowCopies::Side tensor_side(const BoxLevels& levels, size_t width, const std::byte* tensor) {
  std::byte* first = const_cast<std::byte*>(tensor) + levels.tensor_first * width;
  return side_of(levels, width, first, &BoxLevels::Level::tensor_stride);
}
RowCopies::Side part_side(const BoxLevels& levels, size_t width, const std::byte* part) {
  std::byte* first = const_cast<std::byte*>(part) + levels.part_first * width;
  return side_of(levels, width, first, &BoxLevels::Level::part_stride);
}

}  // namespace

BoxLevels levels_of(const Shape& tensor, const Box& part, const Box& box) {
  BoxLevels result;
  size_t tensor_stride = 1, part_stride = 1;
  std::vector<BoxLevels::Level> inner_first;
  for (size_t d = tensor.size(); d-- > 0;) {
    auto cells = static_cast<size_t>(box.hi[d] - box.lo[d]);
    result.tensor_first += static_cast<size_t>(box.lo[d]) * tensor_stride;
    result.part_first += static_cast<size_t>(box.lo[d] - part.lo[d]) * part_stride;
    if (cells > 1) {
      BoxLevels::Level* inner = inner_first.empty() ? nullptr : &inner_first.back();
      bool one = inner != nullptr && inner->extent * inner->tensor_stride == tensor_stride &&
                 inner->extent * inner->part_stride == part_stride;
      if (one) {
        inner->extent *= cells;
      } else {
        inner_first.push_back({cells, tensor_stride, part_stride});
      }
    }
    tensor_stride *= static_cast<size_t>(tensor[d]);
    part_stride *= static_cast<size_t>(part.hi[d] - part.lo[d]);
  }
  result.levels.assign(inner_first.rbegin(), inner_first.rend());
  return result;
}

std::vector<RowCopy> copies_to_tensor(const BoxLevels& levels, size_t width, const std::byte* part,
                                      std::byte* tensor) {
  return RowCopies(extents_of(levels), width, part_side(levels, width, part),
                   tensor_side(levels, width, tensor))
      .run();
}
std::vector<RowCopy> copies_to_part(const BoxLevels& levels, size_t width, const std::byte* tensor,
                                    std::byte* part) {
  return RowCopies(extents_of(levels), width, tensor_side(levels, width, tensor),
                   part_side(levels, width, part))
      .run();
}

}  // namespace tile
