// The body of one statement: scalars as nodes, loads as accesses, folds as regions.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/language/lift/context.h"

namespace tile::lift {

// A loop variable that is an index of the statement.
struct LoopIndex {
  int slot = -1;
  Expr name;  // as the statement calls it
};

class StatementBody {
 public:
  // `loops` maps loop variables; accesses are added to `accesses`.
  StatementBody(Context& context, const std::map<std::string, LoopIndex>& loops,
                std::vector<SymbolicAccess>& accesses);

  void add_result(const ScalarPtr& s);
  Body finish() &&;

 private:
  // The statement's own body, or the region of a fold.
  struct Region {
    Body body;
    Region* outer = nullptr;
    const Scalar* fold = nullptr;
    std::unordered_map<const Scalar*, NodeId> done;
    std::vector<NodeId> captured;        // nodes of the outer region
    std::map<NodeId, NodeId> arguments;  // of those
  };

  NodeId emit(const ScalarPtr& s, Region& region);
  NodeId emit_new(const ScalarPtr& s, Region& region);
  NodeId emit_operation(const Scalar& s, Region& region);
  NodeId emit_load(const Scalar& s, Region& region, const std::vector<const Scalar*>& guards);
  NodeId emit_guard(const ScalarPtr& s, Region& region);
  NodeId emit_fold(const Scalar& s, Region& region);
  NodeId emit_reduction(const ScalarPtr& s, Region& region);
  NodeId carried(const Scalar& s, Region& region);
  NodeId capture(NodeId outer, DType type, Region& region);
  NodeId literal(const Scalar& s, Region& region) const;

  NodeId number(const Expr& e, Region& region);
  NodeId number_of(const Expr& e, Region& region);
  NodeId variable(const std::string& name, Region& region);
  NodeId condition(const Expr& e, Region& region);
  NodeId quotient(const Expr& e, Region& region);
  NodeId chain(Op op, const Expr& e, Region& region);

  bool needs_region(const Scalar& s, const Region& region) const;
  bool indices_only(const Expr& e) const;
  Expr renamed(const Expr& e) const;
  int access_slot(SymbolicAccess access);

  Context& context_;
  const std::map<std::string, LoopIndex>& loops_;
  std::map<std::string, Expr> names_;
  std::vector<SymbolicAccess>& accesses_;
  std::map<std::string, int> slots_;
  Region root_;
};

}  // namespace tile::lift
