// What fuse_streams() looks for in single statements.
#pragma once

#include <optional>
#include <vector>

#include "core/ir/bound.h"

namespace tile::stream {

// exp(x - m) in a pointwise piece E, m read from a maximum over one iterator of the same x.
struct Distance {
  size_t load = 0;                      // of m
  IdVector<IteratorId, IteratorId> of;  // of the maximum: that of E; none: it has one value
  IteratorId axis;                      // of E, that the maximum runs over
  std::vector<size_t> x_loads;
};
std::optional<Distance> distance_to(const Piece& e, const Contraction& maximum);

// A sum over `axis` of terms that are linear in the load of a tensor whose dimensions are the
// iterators of some piece.
struct LinearSum {
  size_t load = 0;
  std::vector<IteratorId>
      of;  // by dimension of the tensor: the sum's iterator; none: it has one value
};
std::optional<LinearSum> linear_sum(const Contraction& c, TensorId tensor);

// How a pointwise result P is a multiple of a tensor's element at the same place.
struct Multiple {
  size_t load = 0;
  std::vector<IteratorId> of;  // by dimension of the tensor: P's iterator; none: it has one value
};
std::optional<Multiple> multiple_of(const Contraction& p, TensorId tensor);

// Every condition of `other` is one of the piece's, where iterator u of `other` is the piece's
// of[u] (none: it has one value).
bool keeps_conditions(const Piece& piece, const Piece& other,
                      const IdVector<IteratorId, IteratorId>& of);

}  // namespace tile::stream
