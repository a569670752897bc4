// Emits one function of a nest: its statements in order, and its loops.
#pragma once

#include <llvm/IR/Module.h>

#include <functional>
#include <set>

#include "backends/cpu/emit/amx_emitter.h"
#include "backends/cpu/emit/body_emitter.h"
#include "backends/cpu/emit/condition_emitter.h"
#include "backends/cpu/emit/emit_context.h"
#include "backends/cpu/emit/fold_emitter.h"
#include "backends/cpu/emit/prefetch_emitter.h"
#include "backends/cpu/emit/question_emitter.h"
#include "backends/cpu/emit/running_emitter.h"
#include "backends/cpu/emit/store_emitter.h"
#include "backends/cpu/emit/transpose_emitter.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {

// Adds a function for each entry of the plan to the module, named entry_0, entry_1 …:
//   void entry(void* const* buffers, const int64_t* parameters, std::byte* workspace,
//              std::byte* scratch, int64_t begin, int64_t end)
// A parallel loop runs its iterations [begin, end), counted from 0. Throws Failure (compile,
// "limit") for nests that would become too much code.
void emit_module(llvm::Module& module, const nest::Nest& nest, const Plan& plan,
                 HalfConversion half, const DotInstructions& dots);

class FunctionEmitter {
 public:
  FunctionEmitter(llvm::Function& function, const nest::Nest& nest, const Plan& plan,
                  HalfConversion half, const DotInstructions& dots, ModuleLines* lines);
  void run(const Entry& entry);
  int64_t statements() const { return statements_; }

 private:
  void bind_parameters();
  void block(const nest::Block& statements);
  void statement(const nest::For& f);
  void statement(const nest::If& i);
  void statement(const nest::Store& s) { stores_.store(s); }
  void statement(const nest::Alloc& a) {
    c_.memory.forget(a.buffer);
    c_.begun[a.buffer] = c_.loops.size();
  }
  [[noreturn]] void statement(const nest::Sync&) {
    fail(Stage::compile, "unsupported", {}, "a nest with barriers is for GPUs");
  }
  [[noreturn]] void statement(const nest::Copy&) {
    fail(Stage::compile, "unsupported", {}, "a nest with bulk copies is for GPUs");
  }
  void statement(const nest::MatrixTile& m) { amx_.multiply(m); }
  void statement(const nest::MatrixMove& m) { amx_.move(m); }
  void finish();

  // Loops (emit_loop.cpp).
  void written_out(const nest::For& f, const Form& begin, int64_t extent);
  void vector_loop(const nest::For& f, const Form& begin, const Form& extent);
  Lanes lanes_of_loop(const nest::For& f, const Form& lane, const Form& extent);
  void counted_loop(const nest::For& f, const Form& begin, const Form& extent);
  void loop_by_lane(const nest::For& f, const Form& begin, const Form& extent);
  void parallel_loop(const nest::For& f);
  struct Count {
    llvm::Value *begin = nullptr, *end = nullptr;
    bool certain = false;  // at least one iteration
    int64_t run = 0;       // iterations between two questions; 0: none are asked
  };
  void count_up(const Count& count, const std::set<nest::BufferId>& stored,
                const std::function<void(llvm::Value*)>& body);
  void body_with(const nest::For& f, Form variable);
  void counted_body(const nest::For& f, const Form& variable);

  EmitContext c_;
  AmxEmitter amx_{c_};
  QuestionEmitter questions_;
  RunningEmitter running_{c_};
  PrefetchEmitter prefetches_{c_};
  TransposeEmitter transposes_{c_};
  BodyEmitter bodies_{c_, running_};
  FoldEmitter folds_{c_, bodies_, questions_};
  ConditionEmitter conditions_{c_, bodies_};
  StoreEmitter stores_{c_, bodies_, running_, prefetches_};
  int64_t statements_ = 0;
};

}  // namespace tile::cpu
