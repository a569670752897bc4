// What a person would want to know of the windows that a program computes, told by `tile explain`:
// whether one falls apart into smaller ones, and whether two are the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ir/bound.h"

namespace tile {

// The reductions of a window in groups such that it may be computed one group after the other (a
// row blur, then a column blur), with as many terms as the groups have together instead of their
// product: each group slides along dimensions of its own and has weights of its own. At least two
// groups, each in the order of the iterators; empty: not separable, or no window.
std::vector<std::vector<size_t>> separable_window(const Piece& piece, Aggregation aggregation);

// What a windowed piece slides over, and how: `form` is equal for windows of the same shape,
// strides and offsets, whatever their iterators are called and in which order they stand.
struct SlidingWindow {
  TensorId tensor;
  std::string form;
};
// nullopt: no load slides, or several do.
std::optional<SlidingWindow> sliding_window(const Piece& piece);

}  // namespace tile
