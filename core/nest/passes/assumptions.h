// What the conditions around a statement say: forms that are not negative in the branch that is
// being rewritten.
#pragma once

#include <vector>

#include "core/nest/passes/loop_context.h"

namespace tile::nest {

class Assumptions {
 public:
  // Forms that are >= 0 until `forget` is called with the number that came back.
  size_t learn(const std::vector<Expr>& nonnegative);
  // That not all of these are, which says something where there is one alone: it is <= -1.
  size_t learn_failed(const std::vector<Expr>& nonnegative, const LoopContext& at);
  void forget(size_t number) { forms_.resize(number); }

  // Whether a known form makes `e` >= 0: `e` is a multiple of it and something that the ranges keep
  // from being negative.
  bool proves_nonnegative(const Expr& e, const LoopContext& at) const;
  bool proves_negative(const Expr& e, const LoopContext& at) const;

 private:
  std::vector<Expr> forms_;
};

}  // namespace tile::nest
