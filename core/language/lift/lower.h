// Scalars at the elements of a tensor become one contraction; reductions inside them get
// contractions of their own, over the loop variables that they depend on.
#pragma once

#include <string>
#include <vector>

#include "core/language/lift/context.h"

namespace tile::lift {

// One dimension of a result: the loops that run over it, outermost first, and the position that
// they give, which is the loop variable where there is one.
struct ResultDimension {
  std::vector<Expr> loops;
  Expr index;
  Expr size;
};
ResultDimension plain_dimension(const Context& context, const Expr& loop);
// A dimension of an array that consists of rows: a loop for each level.
ResultDimension row_dimension(Context& context, const Value& array);
// Whether reading an element needs quotients or remainders of loop variables.
bool needs_quotients(const Context& context, const Scalar& s);

// Adds the statement name[dims…] = results, a new dimension counting the results where there are
// several. A single result that is a reduction gives its contraction,
// anything else a pointwise one.
TensorId lower(Context& context, std::vector<ScalarPtr> results,
               const std::vector<ResultDimension>& dims, const std::string& name, Span span);

}  // namespace tile::lift
