// The numbers of a kernel that launches decide, as expressions of the nest; those of a kernel of
// one size are constants.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "core/kernel/kernel.h"
#include "core/schedule/search/dynamic_extent.h"
#include "core/simplify/expr.h"

namespace tile::lowering {

// The name of the parameter that is a class's extent.
inline constexpr const char* kExtentName = "extent";

// lo <= form < hi with integral coefficients.
struct Condition {
  Affine form;
  Expr lo, hi;
  // Whether the box, at every extent, keeps the form from being less than lo, or hi and more.
  bool never_below = false, never_above = false;
};

class OpenNumbers {
 public:
  OpenNumbers() = default;
  // Of a kernel that outlives this, and of its pieces, conditions and literals by their addresses.
  OpenNumbers(const Kernel& kernel, const DynamicExtent& extent);

  bool any() const { return most_ > 0; }
  int64_t most() const { return most_; }  // of the extent
  bool is_open(const Piece& piece, IteratorId u) const;
  // The iterator's extent, and the largest that it may be.
  Expr extent(const Piece& piece, IteratorId u) const;
  int64_t most(const Piece& piece, IteratorId u) const;
  // The same of a dimension of a tensor of the kernel.
  bool is_open(TensorId tensor) const { return dimensions_.contains(tensor); }
  Expr extent(const BoundTensor& t, TensorId tensor, size_t dimension) const;
  int64_t most(const BoundTensor& t, TensorId tensor, size_t dimension) const;
  // A condition of the piece, or one that is made of its accesses.
  Condition condition(const Constraint& c, const Piece& piece) const;
  // That the index is inside the tensor's dimension.
  Condition inside(const Affine& index, const BoundTensor& t, TensorId tensor, size_t dimension,
                   const Piece& piece) const;
  // How a literal of a body grows; nullopt: it is what it says.
  std::optional<Growth> literal(const Node& node) const;

 private:
  Condition condition(const Affine& form, const Growth& lo, const Growth& hi,
                      const Piece& piece) const;
  IterationBox box_at(const Piece& piece, int64_t extent) const;

  int64_t most_ = 0;
  std::map<std::pair<const Piece*, IteratorId>, Growth> walks_;
  std::map<std::pair<TensorId, size_t>, Growth> sizes_;
  std::map<TensorId, size_t> dimensions_;  // the last one that is open
  std::map<const Constraint*, std::pair<Growth, Growth>> bounds_;
  std::map<const Node*, Growth> literals_;

 public:
  // The last open dimension of a tensor that has one.
  size_t last_open(TensorId tensor) const { return dimensions_.at(tensor); }
};

}  // namespace tile::lowering
