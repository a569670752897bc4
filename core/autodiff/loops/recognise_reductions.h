// Ordered folds that are sums, products, maxima and minima.
#pragma once

#include "core/ir/body.h"

namespace tile {

// The body with folds whose steps only add to their carried values (or multiply them, or take the
// larger or smaller one) by something that does not depend on these, as folds of that operation,
// one for each operation. They start from the neutral element, where the type has one, and their
// starts are combined with them. Sums and products of floats may then round differently.
Body with_reductions(const Body& body);

// What add, mul, max or min leave as it is.
double neutral_value(Op op);
bool is_neutral(const Node& literal, Op op);
// Appends it to the body; -1: the type has none, or is not computed in.
NodeId neutral_element(Body& body, Op op, DType type);

}  // namespace tile
