// Boxes of a tensor's cells, and the little algebra on them that sharding needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tile {

// The cells x with lo <= x < hi in every dimension. A tensor without dimensions has one cell, and
// its only box no bounds.
struct Box {
  std::vector<int64_t> lo, hi;

  size_t dims() const { return lo.size(); }
  bool empty() const;
  int64_t count() const;               // of its cells; throws Overflow
  std::vector<int64_t> shape() const;  // extents, none negative
  friend bool operator==(const Box&, const Box&) = default;
};

Box whole_box(const std::vector<int64_t>& shape);
Box intersection(const Box& a, const Box& b);       // may be empty
bool overlap(const Box& a, const Box& b);           // whether they share a cell
bool contains(const Box& outer, const Box& inner);  // an empty one is in every box
// The smallest box that holds both; an empty one adds nothing.
Box hull(const Box& a, const Box& b);
Box moved(const Box& box, const std::vector<int64_t>& by);     // lo and hi plus `by`
Box relative(const Box& box, const std::vector<int64_t>& to);  // lo and hi less `to`
// What is in `a` and not in `b`, as at most 2 * dims() boxes that share no cell.
std::vector<Box> difference(const Box& a, const Box& b);
// Adds to boxes that share no cell those cells of `box` that are in none of them.
void add_disjoint(std::vector<Box>& boxes, const Box& box);
// "[0:4, 2:6]"
std::string to_string(const Box& box);

}  // namespace tile
