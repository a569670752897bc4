// Long loops ask now and then whether the code is to end.
#pragma once

#include "backends/cpu/emit/amx_emitter.h"

namespace tile::cpu {

class QuestionEmitter {
 public:
  QuestionEmitter(EmitContext& context, AmxEmitter& amx, const LongLoops& long_loops)
      : c_(context), amx_(amx), long_loops_(long_loops) {}

  bool has_long_loops() const { return !long_loops_.empty(); }
  // The pointer to a Question or null, in code that asks.
  void use(llvm::Value* question) { question_ = question; }
  // Where a question that is answered with yes ends; null: none is asked.
  llvm::BasicBlock* stopped() const { return stopped_; }

  // Iterations of a loop between two questions; 0: it asks none.
  int64_t run_of(const void* loop) const;
  // Goes on to `next` unless somebody answers that the code is to end.
  void ask(llvm::BasicBlock* next);
  // Where the first of the runs of a loop with questions ends: all others are whole.
  llvm::Value* first_end(llvm::Value* begin, llvm::Value* end, int64_t run);

 private:
  EmitContext& c_;
  AmxEmitter& amx_;
  const LongLoops& long_loops_;
  llvm::Value* question_ = nullptr;
  llvm::BasicBlock* stopped_ = nullptr;
};

}  // namespace tile::cpu
