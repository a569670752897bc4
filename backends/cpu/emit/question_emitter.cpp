#include "backends/cpu/emit/question_emitter.h"

#include <llvm/IR/MDBuilder.h>

namespace tile::cpu {

int64_t QuestionEmitter::run_of(const void* loop) const {
  auto at = long_loops_.find(loop);
  return at == long_loops_.end() ? 0 : at->second;
}

// Goes on to `next` unless somebody answers that the code is to end.
void QuestionEmitter::ask(llvm::BasicBlock* next) {
  llvm::LLVMContext& context = c_.function.getContext();
  if (stopped_ == nullptr) stopped_ = llvm::BasicBlock::Create(context, "");
  auto* asked = llvm::BasicBlock::Create(context, "", &c_.function);
  llvm::MDNode* rarely = llvm::MDBuilder(context).createBranchWeights(1, 1 << 20);
  c_.ir.CreateCondBr(c_.ir.CreateIsNotNull(question_), asked, next, rarely);
  c_.ir.SetInsertPoint(asked);
  llvm::Value* answer = c_.ir.CreateLoad(c_.ir.getPtrTy(), question_);
  auto* type = llvm::FunctionType::get(c_.ir.getInt1Ty(), {c_.ir.getPtrTy()}, false);
  llvm::CallInst* is_over = c_.ir.CreateCall(type, answer, {question_});
  is_over->addRetAttr(llvm::Attribute::ZExt);
  is_over->setDoesNotThrow();
  // Whoever answers may use tile registers itself.
  amx_.forget_configuration();
  c_.ir.CreateCondBr(is_over, stopped_, next, rarely);
}

// Where the first of the runs of a loop with questions ends: all others are whole.
llvm::Value* QuestionEmitter::first_end(llvm::Value* begin, llvm::Value* end, int64_t run) {
  llvm::Value* last = c_.ir.CreateSub(c_.ir.CreateSub(end, begin), c_.ir.getInt64(1));
  llvm::Value* rest = c_.ir.CreateAnd(last, c_.ir.getInt64(static_cast<uint64_t>(run - 1)));
  return c_.ir.CreateAdd(begin, c_.ir.CreateAdd(rest, c_.ir.getInt64(1)));
}

}  // namespace tile::cpu
