// The conditions of guards: uniform ones, and those that lanes have for themselves.
#pragma once

#include <vector>

#include "backends/cpu/emit/body_emitter.h"

namespace tile::cpu {

struct Condition {
  llvm::Value* uniform = nullptr;  // i1; null: true
  llvm::Value* lanes = nullptr;    // null: all
  bool never = false;
};

class ConditionEmitter {
 public:
  ConditionEmitter(EmitContext& context, BodyEmitter& bodies) : c_(context), bodies_(bodies) {}

  Condition condition(const nest::If& i);

 private:
  Condition nonnegative(const std::vector<Expr>& forms);
  void add_predicate(Condition& c, const nest::If& i);
  llvm::Value* predicate(const nest::If& i, const Condition& c);

  EmitContext& c_;
  BodyEmitter& bodies_;
};

}  // namespace tile::cpu
