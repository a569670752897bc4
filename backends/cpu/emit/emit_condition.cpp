#include "backends/cpu/emit/emitter.h"
#include "backends/cpu/values/convert.h"

namespace tile::cpu {

void FunctionEmitter::statement(const nest::If& i) {
  Condition c = nonnegative(i.nonnegative);
  if (c.never) {
    block(i.otherwise);
    return;
  }
  if (!i.predicate.results.empty()) add_predicate(c, i);
  both_sides(c, i);
}

FunctionEmitter::Condition FunctionEmitter::nonnegative(const std::vector<Expr>& forms) {
  Condition c;
  for (const Expr& e : forms) {
    Form form = indices_.form(e);
    if (form.is_constant() && form.constant >= 0) continue;
    if (form.is_constant()) {
      c.never = true;
      return c;
    }
    llvm::Value* value = indices_.value(form, lanes_.width);
    llvm::Value* holds = scopes_.once({key_of(value), 'p'}, [&] {
      return ir_.CreateICmpSGE(value, llvm::Constant::getNullValue(value->getType()));
    });
    llvm::Value*& all = value->getType()->isVectorTy() ? c.lanes : c.uniform;
    all = all == nullptr ? holds : scopes_.once({key_of(all), key_of(holds), 'a'}, [&] {
      return ir_.CreateAnd(all, holds);
    });
  }
  return c;
}

llvm::Value* FunctionEmitter::predicate(const nest::If& i, const Condition& c) {
  llvm::Value* holds = nullptr;
  within(c.lanes == nullptr ? lanes_ : masked(c.lanes), [&] {
    NodeId result = i.predicate.results[0];
    llvm::Value* value = values(i.predicate, i.loads)[static_cast<size_t>(result)];
    holds = emit_truth(ir_, value, i.predicate[result].type);
  });
  return holds;
}

// The predicate may read only where the other conditions hold.
void FunctionEmitter::add_predicate(Condition& c, const nest::If& i) {
  llvm::Value* holds = nullptr;
  if (c.uniform == nullptr) {
    holds = predicate(i, c);
  } else {
    llvm::BasicBlock* from = ir_.GetInsertBlock();
    llvm::BasicBlock* tested = nullptr;
    conditional(c.uniform, [&] {
      holds = predicate(i, c);
      tested = ir_.GetInsertBlock();
    });
    llvm::PHINode* both = ir_.CreatePHI(holds->getType(), 2);
    both->addIncoming(holds, tested);
    both->addIncoming(llvm::Constant::getNullValue(holds->getType()), from);
    holds = both;
    c.uniform = nullptr;
  }
  if (!holds->getType()->isVectorTy()) {
    c.uniform = holds;
  } else {
    c.lanes = c.lanes == nullptr ? holds : ir_.CreateAnd(c.lanes, holds);
  }
}

void FunctionEmitter::both_sides(const Condition& c, const nest::If& i) {
  auto then = [&] { block(i.then); };
  auto otherwise = [&] { block(i.otherwise); };
  if (c.lanes == nullptr) {
    if (c.uniform == nullptr) return then();
    return conditional(c.uniform, then, i.otherwise.empty() ? std::function<void()>() : otherwise);
  }
  llvm::Value* mask = c.lanes;
  if (c.uniform != nullptr) mask = ir_.CreateAnd(mask, splat(c.uniform));
  within(masked(mask), then);
  if (!i.otherwise.empty()) within(masked(ir_.CreateNot(mask)), otherwise);
}

}  // namespace tile::cpu
