// Along which reductions a step of a product on tensor cores has terms, and how many of each.
#pragma once

#include <optional>
#include <utility>

#include "core/kernel/forms/tensor_core_gemm.h"

namespace tile::tensor_cores {

constexpr int64_t kLeastExtent = 16;  // of m, n and k: below, other code is better
constexpr int64_t kMostStride = 8;    // between elements that a bulk copy takes
constexpr int64_t kMostSpan = 255;    // between the first and the last index of a box

// The dimensions of a product's factors as they lie in memory.
class Factors {
 public:
  Factors(const Piece& piece, const ArgumentLayouts& layouts) : piece_(piece), layouts_(layouts) {}

  const ArgumentLayout& layout_of(const Access& a) const { return layouts_.at(a.tensor); }
  // The dimension along which elements are neighbours.
  std::optional<size_t> inner_dimension(const Access& a) const;
  // The dimension that an iterator alone moves along; nullopt: none or several.
  static std::optional<size_t> only_dimension(const Access& a, IteratorId iterator);
  static int64_t coefficient(const Index& index, IteratorId iterator) {
    return index.affine.coefficient(iterator).num();
  }
  // No other iterator moves the index.
  bool alone(const Index& index, IteratorId iterator) const;
  // Both factors move with it: of a window, too, where a parallel index shares a dimension.
  bool has_terms(IteratorId iterator) const;

 private:
  const Piece& piece_;
  const ArgumentLayouts& layouts_;
};

// Sets the product's `k` and `k_tile`; `inner`, by load, are the iterators in which neighbours in
// memory differ. Where one of them is a reduction, its values are the terms of a step; elsewhere a
// step is a box over all reductions that boxes of both factors can span. False: there is no step.
bool choose_steps(Product& product, const Piece& piece, const Factors& factors,
                  const std::pair<IteratorId, IteratorId>& inner, bool strict);

}  // namespace tile::tensor_cores
