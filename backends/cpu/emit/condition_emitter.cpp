#include "backends/cpu/emit/condition_emitter.h"

#include "backends/cpu/values/convert.h"

namespace tile::cpu {

Condition ConditionEmitter::condition(const nest::If& i) {
  Condition c = nonnegative(i.nonnegative);
  if (!c.never && !i.predicate.results.empty()) add_predicate(c, i);
  return c;
}

Condition ConditionEmitter::nonnegative(const std::vector<Expr>& forms) {
  Condition c;
  for (const Expr& e : forms) {
    Form form = c_.indices.form(e);
    if (form.is_constant() && form.constant >= 0) continue;
    if (form.is_constant()) {
      c.never = true;
      return c;
    }
    llvm::Value* value = c_.indices.value(form, c_.lanes.width);
    llvm::Value* holds = c_.scopes.once({key_of(value), 'p'}, [&] {
      return c_.ir.CreateICmpSGE(value, llvm::Constant::getNullValue(value->getType()));
    });
    llvm::Value*& all = value->getType()->isVectorTy() ? c.lanes : c.uniform;
    all = all == nullptr ? holds : c_.scopes.once({key_of(all), key_of(holds), 'a'}, [&] {
      return c_.ir.CreateAnd(all, holds);
    });
  }
  return c;
}

llvm::Value* ConditionEmitter::predicate(const nest::If& i, const Condition& c) {
  llvm::Value* holds = nullptr;
  c_.within(c.lanes == nullptr ? c_.lanes : c_.masked(c.lanes), [&] {
    NodeId result = i.predicate.results[0];
    llvm::Value* value = bodies_.values(i.predicate, i.loads)[result];
    holds = emit_truth(c_.ir, value, i.predicate[result].type);
  });
  return holds;
}

// The predicate may read only where the other conditions hold.
void ConditionEmitter::add_predicate(Condition& c, const nest::If& i) {
  llvm::Value* holds = nullptr;
  if (c.uniform == nullptr) {
    holds = predicate(i, c);
  } else {
    llvm::BasicBlock* from = c_.ir.GetInsertBlock();
    llvm::BasicBlock* tested = nullptr;
    c_.conditional(c.uniform, [&] {
      holds = predicate(i, c);
      tested = c_.ir.GetInsertBlock();
    });
    llvm::PHINode* both = c_.ir.CreatePHI(holds->getType(), 2);
    both->addIncoming(holds, tested);
    both->addIncoming(llvm::Constant::getNullValue(holds->getType()), from);
    holds = both;
    c.uniform = nullptr;
  }
  if (!holds->getType()->isVectorTy()) {
    c.uniform = holds;
  } else {
    c.lanes = c.lanes == nullptr ? holds : c_.ir.CreateAnd(c.lanes, holds);
  }
}

}  // namespace tile::cpu
