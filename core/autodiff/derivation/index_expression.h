// Integer values inside bodies as index expressions, which have derivatives and bounds.
#pragma once

#include <optional>

#include "core/autodiff/derivation/derivation.h"

namespace tile {

// Reads the values of one contraction's typed body.
class IndexExpressions {
 public:
  IndexExpressions(const Program& program, const SymbolicContraction& contraction)
      : program_(program), contraction_(contraction) {}

  // The value of node `id` of `body`, in the contraction's indices, sizes and run-time parameters,
  // which become sizes by that; nullopt: it depends on data, or is no such expression.
  std::optional<Expr> value(const Body& body, NodeId id) const;
  // Expressions free of indices that the value is never below (above).
  std::optional<Expr> least(const Body& body, NodeId id) const { return bound(body, id, false); }
  std::optional<Expr> most(const Body& body, NodeId id) const { return bound(body, id, true); }

  bool is_index_free(const Expr& e) const;

 private:
  std::optional<Expr> operation(const Body& body, const Node& node) const;
  std::optional<Expr> choice(const Body& body, const Node& node) const;
  std::optional<Expr> parameter(const Node& load) const;
  std::optional<Expr> bound(const Body& body, NodeId id, bool upper) const;
  std::optional<Expr> bound_of_operation(const Body& body, const Node& node, bool upper) const;
  std::optional<Expr> last_of_index(size_t slot) const;

  const Program& program_;
  const SymbolicContraction& contraction_;
};

// Accesses by value bound no index: those that nothing reads any more go.
void drop_unread_values(SymbolicContraction& contraction);

// Puts index expressions in place of index values wherever the values are such expressions. What is
// left of accesses by value is read by one load each.
void express_indices(const Program& program, SymbolicContraction& contraction);

}  // namespace tile
