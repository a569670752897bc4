// Small builders of nest statements.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/nest/nest.h"

namespace tile::lowering {

nest::Statement statement(nest::For loop);
nest::Statement statement(nest::Store store);
nest::Statement statement(nest::If guard);
void append(nest::Block& block, nest::Block more);
nest::For make_loop(std::string variable, Expr begin, Expr extent, nest::LoopKind kind);
// Linear expressions in their one normal form, others as they are.
Expr tidy(const Expr& e);

// A loop around what `body` makes of its variable; nothing where it has no iteration or the body is
// empty.
nest::Block looped(const std::string& name, const Expr& begin, const Expr& extent,
                   nest::LoopKind kind, const std::function<nest::Block(const Expr&)>& body);
// `body` with a value named by a loop of one iteration where it is not linear; in a vector loop;
// under conditions.
nest::Block bound_to(const std::string& name, const Expr& value,
                     const std::function<nest::Block(const Expr&)>& body);
nest::Block vector_lanes(const std::string& name, int64_t lanes,
                         const std::function<nest::Block(const Expr&)>& body);
nest::Block only_if(std::vector<Expr> nonnegative, nest::Block body);

}  // namespace tile::lowering
