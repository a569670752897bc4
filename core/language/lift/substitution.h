// Replaces loop variables and carried values in scalars; shared nodes stay shared.
#pragma once

#include "core/language/lift/context.h"

namespace tile::lift {

class Substituter {
 public:
  Substituter(Context& context, const Substitution& by) : context_(context), by_(by) {}
  ScalarPtr scalar(const ScalarPtr& s);

 private:
  Expr expression(const Expr& e);
  bool touches(const Scalar& s);
  bool touches(const std::string& variable);
  ScalarPtr rebuilt(const Scalar& s);

  Context& context_;
  const Substitution& by_;
  std::unordered_map<const Scalar*, ScalarPtr> done_;
  std::unordered_map<const ExprNode*, Expr> expressions_;
  std::map<std::string, bool> touched_;
  std::map<std::string, Expr> data_;
};

}  // namespace tile::lift
