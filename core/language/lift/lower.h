// Scalars at the elements of a tensor become one contraction; reductions inside them get
// contractions of their own, over the loop variables that they depend on.
#pragma once

#include <string>
#include <vector>

#include "core/language/lift/context.h"

namespace tile::lift {

// Adds the statement name[dims…] = results, a new dimension counting the results where there are
// several. `dims` are loop variables. A single result that is a reduction gives its contraction,
// anything else a pointwise one.
TensorId lower(Context& context, std::vector<ScalarPtr> results, const std::vector<Expr>& dims,
               const std::string& name, Span span);

}  // namespace tile::lift
