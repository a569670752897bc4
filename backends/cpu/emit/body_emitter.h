// Bodies: the values of the nodes that the results and `roots` need.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/emit/question_emitter.h"
#include "backends/cpu/emit/running_emitter.h"
#include "core/ir/analysis/integer_range.h"

namespace tile::cpu {

class FoldEmitter;

struct BodyValues {
  const Body& body;
  const std::vector<nest::Access>& loads;
  Nodes arguments;                     // of a fold's region; the counter's is null
  NodeValues nodes = {};               // null: not needed, or a fold
  std::map<NodeId, Nodes> folds = {};  // their results
  const std::string* counter = nullptr;
  IdVector<NodeId, std::optional<IntegerRange>> ranges = {};  // of the nodes, where some divides
};

class BodyEmitter {
 public:
  BodyEmitter(EmitContext& context, RunningEmitter& running) : c_(context), running_(running) {}
  // Folds hold bodies, and bodies folds.
  void use(FoldEmitter& folds) { folds_ = &folds; }

  NodeValues values(const Body& body, const std::vector<nest::Access>& loads,
                    const std::vector<NodeId>& roots = {});
  void emit(BodyValues& values, const std::vector<NodeId>& roots);
  llvm::Value* literal(const Node& node);

 private:
  llvm::Value* node_value(BodyValues& values, NodeId id);
  llvm::Value* size_value(const Expr& e, DType type);
  llvm::Value* loaded(const BodyValues& values, const Node& node);
  llvm::Value* operation(const Body& body, const Node& node, const NodeValues& nodes);
  IdVector<NodeId, std::optional<IntegerRange>> ranges_of(const Body& body) const;
  llvm::Value* small_quotient(const BodyValues& values, const Node& node);

  EmitContext& c_;
  RunningEmitter& running_;
  FoldEmitter* folds_ = nullptr;
};

}  // namespace tile::cpu
