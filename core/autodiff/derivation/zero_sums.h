// Sums that come to nothing: those of the distances from a mean.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/autodiff/derivation/derivation.h"

namespace tile {

// An element: the place along each dimension, in names of the space that is summed over, which
// begin with '#'.
struct Element {
  TensorId tensor;
  std::vector<Expr> place;
};

// What an elementwise statement reads of an operand for a cell of its result; nullopt: the text
// does not say which dimensions are repeated.
std::optional<Element> operand_at(const Derivation& derivation, TensorId operand,
                                  const Element& cell);

// The points of a sum: what a body's loads read there, and each name that is summed over with its
// extent; it takes every value below that.
struct SummedSpace {
  std::function<std::optional<Element>(size_t slot)> read;
  std::map<std::string, Expr> summed;
};

// Whether the text proves that the values of `root` add up to zero (rule 7.1a).
bool sums_to_zero(const Derivation& derivation, const Body& body, NodeId root,
                  const SummedSpace& space);

// The adjoint that load `slot` of a sum's term `root` reads, without those of its addends whose
// part of the sum is zero; -1: that of all is.
TensorId without_zero_sums(Derivation& derivation, const Body& body, NodeId root, size_t slot,
                           const SummedSpace& space);

}  // namespace tile
