#include "core/ir/ranks/box.h"

#include <algorithm>

#include "core/support/checked.h"

namespace tile {

bool Box::empty() const {
  for (size_t d = 0; d < lo.size(); ++d) {
    if (lo[d] >= hi[d]) return true;
  }
  return false;
}

int64_t Box::count() const {
  if (empty()) return 0;
  int64_t cells = 1;
  for (size_t d = 0; d < lo.size(); ++d) cells = checked_mul(cells, checked_sub(hi[d], lo[d]));
  return cells;
}

std::vector<int64_t> Box::shape() const {
  std::vector<int64_t> extents(lo.size());
  for (size_t d = 0; d < lo.size(); ++d) extents[d] = std::max<int64_t>(0, hi[d] - lo[d]);
  return extents;
}

Box whole_box(const std::vector<int64_t>& shape) {
  return {std::vector<int64_t>(shape.size(), 0), shape};
}

Box intersection(const Box& a, const Box& b) {
  Box both = a;
  for (size_t d = 0; d < a.dims(); ++d) {
    both.lo[d] = std::max(a.lo[d], b.lo[d]);
    both.hi[d] = std::min(a.hi[d], b.hi[d]);
  }
  return both;
}

bool overlap(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.dims(); ++d) {
    if (std::max(a.lo[d], b.lo[d]) >= std::min(a.hi[d], b.hi[d])) return false;
  }
  return true;
}

bool contains(const Box& outer, const Box& inner) {
  return inner.empty() || intersection(outer, inner) == inner;
}

Box hull(const Box& a, const Box& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  Box both = a;
  for (size_t d = 0; d < a.dims(); ++d) {
    both.lo[d] = std::min(a.lo[d], b.lo[d]);
    both.hi[d] = std::max(a.hi[d], b.hi[d]);
  }
  return both;
}

Box moved(const Box& box, const std::vector<int64_t>& by) {
  Box there = box;
  for (size_t d = 0; d < box.dims(); ++d) {
    there.lo[d] = checked_add(box.lo[d], by[d]);
    there.hi[d] = checked_add(box.hi[d], by[d]);
  }
  return there;
}

Box relative(const Box& box, const std::vector<int64_t>& to) {
  Box there = box;
  for (size_t d = 0; d < box.dims(); ++d) {
    there.lo[d] = checked_sub(box.lo[d], to[d]);
    there.hi[d] = checked_sub(box.hi[d], to[d]);
  }
  return there;
}

std::vector<Box> difference(const Box& a, const Box& b) {
  if (a.empty()) return {};
  Box both = intersection(a, b);
  if (both.empty()) return {a};
  std::vector<Box> parts;
  Box rest = a;  // what the dimensions before d leave undecided
  for (size_t d = 0; d < a.dims(); ++d) {
    if (rest.lo[d] < both.lo[d]) {
      parts.push_back(rest);
      parts.back().hi[d] = both.lo[d];
    }
    if (both.hi[d] < rest.hi[d]) {
      parts.push_back(rest);
      parts.back().lo[d] = both.hi[d];
    }
    rest.lo[d] = both.lo[d];
    rest.hi[d] = both.hi[d];
  }
  return parts;
}

void add_disjoint(std::vector<Box>& boxes, const Box& box) {
  if (box.empty()) return;
  std::vector<Box> fresh{box};
  for (const Box& known : boxes) {
    std::vector<Box> left;
    for (const Box& part : fresh) {
      for (Box& piece : difference(part, known)) left.push_back(std::move(piece));
    }
    fresh = std::move(left);
    if (fresh.empty()) return;
  }
  for (Box& part : fresh) boxes.push_back(std::move(part));
}

std::string to_string(const Box& box) {
  std::string text = "[";
  for (size_t d = 0; d < box.dims(); ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(box.lo[d]) + ":" + std::to_string(box.hi[d]);
  }
  return text + "]";
}

}  // namespace tile
